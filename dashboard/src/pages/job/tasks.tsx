/** The tasks of a job, however many: what stands where, since when, and what was tried before. */
import { useMemo } from "react";
import { Link, useLocation } from "wouter";
import { now } from "../../api/client";
import type { Job, Task } from "../../api/types";
import { AttemptTable } from "../../parts/attempts";
import { localTimes, stateName, workerName } from "../../parts/format";
import { Empty, Failure, Loading, Panel, Read } from "../../parts/page";
import { useParam } from "../../parts/params";
import { Badge, Clock, Nothing, Said, Took } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { inert } from "../../parts/text";
import { countOf, StateChips, TASK_STATES, type TaskState } from "./counts";
import { useTask } from "./reads";
import { type Rows, useAllRows, useRowsInState, useSight } from "./rows";

const BOX_HEIGHT = "max(24rem, calc(100dvh - 20rem))";
const NOTE_LENGTH_MAX = 300;

export function Tasks({ job }: { job: Job }) {
  const [chosen, choose] = useParam("state");
  const state = TASK_STATES.find((name) => name === chosen);
  return (
    <Panel flush>
      <div className="border-line border-b px-4 py-2">
        <StateChips job={job} chosen={chosen} choose={choose} />
      </div>
      {state === undefined ? (
        <AllTasks job={job} />
      ) : (
        <TasksInState key={state} job={job} state={state} />
      )}
    </Panel>
  );
}

function AllTasks({ job }: { job: Job }) {
  const [sight, look] = useSight();
  const read = useAllRows(job, sight);
  return <TaskTable job={job} read={read} look={look} total={job.num_tasks} />;
}

function TasksInState({ job, state }: { job: Job; state: TaskState }) {
  const [sight, look] = useSight();
  const read = useRowsInState(job, state, sight);
  const total = Math.max(countOf(job, state), read.rows.length);
  return <TaskTable job={job} read={read} look={look} total={total} state={state} />;
}

function TaskTable({
  job,
  read,
  look,
  total,
  state,
}: {
  job: Job;
  read: Rows;
  look: (first: number, last: number) => void;
  total: number;
  state?: TaskState;
}) {
  const columns = useMemo(columnsOfTasks, []);
  const [, go] = useLocation();
  if (!read.isRead && read.rows.length === 0 && read.error === null) {
    return <Loading what="tasks" />;
  }
  return (
    <>
      {read.error && (
        <div className="p-3">
          <Failure error={read.error} retry={read.retry} />
        </div>
      )}
      <Table
        label="Tasks"
        rows={read.rows}
        columns={columns}
        rowKey={(task) => task.task_id}
        onOpen={(task) => go(`/tasks/${task.task_id}`)}
        detail={(task) => <History task={task} job={job} />}
        height={BOX_HEIGHT}
        onSight={look}
        total={total}
        empty={<Empty title={`No task is ${state ?? "here"} now.`} />}
      />
    </>
  );
}

function columnsOfTasks(): Column<Task>[] {
  return [
    {
      id: "task",
      title: "Task",
      width: "7rem",
      cell: (task) => (
        <Link href={`/tasks/${task.task_id}`} className="font-mono text-[0.8125rem] break-all">
          {task.task_id}
        </Link>
      ),
    },
    { id: "state", title: "State", cell: (task) => <State task={task} /> },
    {
      id: "worker",
      title: "Worker",
      width: "clamp(7.5rem, 18vw, 14rem)",
      cell: (task) => <WorkerCell id={task.worker_id} />,
    },
    {
      id: "started",
      title: "Started",
      width: "10rem",
      cell: (task) => <Clock ms={task.started_at_ms} />,
    },
    {
      id: "duration",
      title: "Duration",
      width: "7rem",
      className: "hidden sm:table-cell",
      cell: (task) => <Took from={task.started_at_ms} to={task.finished_at_ms} />,
    },
    {
      id: "attempts",
      title: "Attempts",
      width: "5rem",
      className: "text-right tabular-nums",
      cell: (task) => task.current_attempt_id + 1,
    },
  ];
}

function WorkerCell({ id }: { id: string | null }) {
  if (id === null) return <Nothing />;
  return (
    <Link
      href={`/workers?worker=${encodeURIComponent(id)}`}
      title={inert(id)}
      className="line-clamp-3 wrap-anywhere"
    >
      <bdi>{inert(workerName(id))}</bdi>
    </Link>
  );
}

function State({ task }: { task: Task }) {
  const note = noteOf(task);
  return (
    <div className="flex min-w-0 flex-col gap-0.5">
      <span className="flex items-center gap-2">
        <Badge state={task.state} />
        {task.progress != null && stateName(task.state) === "running" && (
          <Progress share={task.progress} taskId={task.task_id} />
        )}
      </span>
      {task.is_orphaned && (
        <span className="text-warn text-xs">Its worker has missed two renewals.</span>
      )}
      {note !== null && (
        <span className="text-dim line-clamp-3 sm:line-clamp-2 text-xs" title={inert(note)}>
          <Said text={note} lengthMax={NOTE_LENGTH_MAX} />
        </span>
      )}
    </div>
  );
}

/** Why it waits, how far it is, or what went wrong: one line under the badge. */
function noteOf(task: Task): string | null {
  const state = stateName(task.state);
  if (state === "pending") {
    return task.pending_reason == null ? null : localTimes(task.pending_reason, now());
  }
  if (state === "running") return task.status_message;
  return task.error === null ? null : (task.error.split("\n", 1)[0] ?? null);
}

function Progress({ share, taskId }: { share: number; taskId: string }) {
  const percent = Math.round(Math.min(Math.max(share, 0), 1) * 100);
  return (
    <span className="text-dim flex items-center gap-1.5 text-xs">
      <progress
        aria-label={`Progress of ${taskId}`}
        value={percent}
        max={100}
        className="accent-accent h-1.5 w-20"
      />
      {percent} %
    </span>
  );
}

function History({ task, job }: { task: Task; job: Job }) {
  const query = useTask(task.task_id, job);
  return (
    <Read query={query} what="attempts">
      {(read) =>
        read.attempts?.length ? (
          <AttemptTable
            taskId={read.task_id}
            attempts={read.attempts}
            currentId={read.current_attempt_id}
          />
        ) : (
          <p className="text-dim">It has not been tried yet.</p>
        )
      }
    </Read>
  );
}
