/** How a task stands: its state, where it runs, what it waits for, what it may still cost. */
import { Link } from "wouter";
import type { Job, Task } from "../../api/types";
import { count } from "../../parts/format";
import { Panel, Read } from "../../parts/page";
import { Badge, Clock, Fact, Facts, Id, Nothing, Said, Told, Took, useNow } from "../../parts/show";
import { inert } from "../../parts/text";
import { useLack } from "../../session/may";
import { useLetter } from "../letters/reads";
import { Bar } from "./bar";
import { Lease } from "./lease";
import { currentAttempt, useExplanation } from "./reads";

const LEASE_SECONDS = 30;

export function Head({ task, job }: { task: Task; job: Job }) {
  return (
    <Panel>
      <div className="flex flex-col gap-4">
        <div className="flex flex-col gap-1.5">
          <p>
            Current State: <Badge state={task.state} />
            {task.is_orphaned && <span className="badge status-failed ml-2">orphaned</span>}
          </p>
          {task.pending_reason != null && (
            <p className="text-warn">
              <Told text={task.pending_reason} />
            </p>
          )}
          {task.state === "TASK_STATE_PENDING" && job.queue == null && <Nearest task={task} />}
          <p>
            Current Worker:{" "}
            {task.worker_id == null ? (
              <Nothing />
            ) : (
              <Link href={`/workers?worker=${encodeURIComponent(task.worker_id)}`}>
                <Said text={task.worker_id} />
              </Link>
            )}
            {task.worker_address != null && (
              <span className="text-dim">
                {" "}
                at <Said text={task.worker_address} />
              </span>
            )}
          </p>
          <Progress task={task} />
          <Killed task={task} />
        </div>
        {task.state === "TASK_STATE_DEAD_LETTERED" && <Letter taskId={task.task_id} />}
        {/* Only a wide screen has room for moments side by side, each in one line. */}
        <div className="max-xl:[&_time]:whitespace-normal">
          <TaskFacts task={task} job={job} />
        </div>
      </div>
    </Panel>
  );
}

/** The workers that come closest to having room for it, and what each of them lacks. */
function Nearest({ task }: { task: Task }) {
  const nearest = useExplanation(task).data?.reason?.nearest ?? [];
  if (nearest.length === 0) return null;
  return (
    <div className="text-dim">
      <p id="nearest">Nearest workers:</p>
      <ul aria-labelledby="nearest" className="list-disc pl-5">
        {nearest.map(({ worker_id: id, name, lacks }) => (
          <li key={id}>
            <Link href={`/workers?worker=${encodeURIComponent(id)}`}>
              <Said text={name} />
            </Link>
            : <Said text={lacks.map((lack) => lack.message).join(", ")} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Why it was stopped; what ended its whole job stands there. */
function Killed({ task }: { task: Task }) {
  if (task.state !== "TASK_STATE_KILLED" || task.error == null) return null;
  return (
    <p>
      Killed: <Said text={task.error.split("\n", 1)[0] ?? ""} lengthMax={300} />{" "}
      <Link href={`/jobs/${task.job_id}`} className="underline">
        Why job {task.job_id} ended
      </Link>
    </p>
  );
}

function Progress({ task }: { task: Task }) {
  if (task.progress == null && task.status_message == null) return null;
  return (
    <div className="flex flex-wrap items-center gap-x-3">
      {task.progress != null && (
        <>
          <span>Progress:</span>
          <Bar role="progressbar" label="Progress" share={task.progress} />
          <span className="tabular-nums">{Math.floor(task.progress * 100)} %</span>
        </>
      )}
      {task.status_message != null && (
        <span className="text-dim min-w-0">
          <Said text={task.status_message} lengthMax={300} />
        </span>
      )}
    </div>
  );
}

function TaskFacts({ task, job }: { task: Task; job: Job }) {
  const spec = job.spec ?? {};
  const ports = Object.entries(task.ports);
  return (
    <Facts>
      <Fact name="Task">
        <Id id={task.task_id} what="task id" />
      </Fact>
      <Fact name="Lease">
        <Lease attempt={currentAttempt(task)} seconds={Number(spec["lease"] ?? LEASE_SECONDS)} />
      </Fact>
      <Fact name="Failures">
        <Budget used={task.failure_count} retried={spec["max_retries_failure"]} />
      </Fact>
      <Fact name="Lost workers and preemptions">
        <Budget used={task.preemption_count} retried={spec["max_retries_preemption"]} />
      </Fact>
      <Fact name="Submitted">
        <Clock ms={task.submitted_at_ms} date />
      </Fact>
      <Fact name="Eligible">
        <Eligible task={task} />
      </Fact>
      <Fact name="Started">
        <Clock ms={task.started_at_ms} date />
      </Fact>
      <Fact name="Finished">
        <Clock ms={task.finished_at_ms} date />
      </Fact>
      <Fact name={task.finished_at_ms == null ? "Takes so far" : "Took"}>
        <Took from={task.started_at_ms} to={task.finished_at_ms} />
      </Fact>
      <Fact name="Exit code">{task.exit_code ?? <Nothing />}</Fact>
      {ports.length > 0 && (
        <Fact name="Ports">
          {ports.map(([name, port]) => (
            <div key={name}>
              <Said text={name} /> <span className="font-mono">{port}</span>
            </div>
          ))}
        </Fact>
      )}
      {task.devices.length > 0 && (
        <Fact name="Devices">
          <span className="font-mono">{task.devices.join(" ")}</span>
        </Fact>
      )}
    </Facts>
  );
}

function Budget({ used, retried }: { used: number; retried: unknown }) {
  if (typeof retried !== "number") return count(used);
  return (
    <>
      {count(used)}{" "}
      <span className={used > retried ? "text-bad" : "text-dim"}>
        {retried === 0 ? "(none is retried)" : `(up to ${count(retried)} are retried)`}
      </span>
    </>
  );
}

/** A retry waits its turn: before this moment nobody takes the task. */
function Eligible({ task }: { task: Task }) {
  const nowMs = useNow();
  if (task.state === "TASK_STATE_PENDING" && task.eligible_at_ms <= nowMs) {
    return (
      <>
        now, since <Clock ms={task.eligible_at_ms} />
      </>
    );
  }
  return <Clock ms={task.eligible_at_ms} date />;
}

function Letter({ taskId }: { taskId: string }) {
  const lack = useLack("data");
  if (lack === null) return <LetterRead taskId={taskId} />;
  return (
    <p className="border-line bg-page rounded border px-3 py-2">
      It is a dead letter. Why is not shown to you: {inert(lack)}
    </p>
  );
}

function LetterRead({ taskId }: { taskId: string }) {
  const query = useLetter(taskId);
  // As high as what will stand there, so that nothing moves.
  if (query.isPending)
    return (
      <p className="border-line text-dim rounded border px-3 py-2">Reading the dead letter …</p>
    );
  return (
    <div className="border-line bg-page rounded border px-3 py-2">
      <Read query={query} what="the dead letter">
        {(letter) => (
          <p>
            Dead letter: <strong className="font-medium">{letter.reason_code}</strong>
            {letter.stage != null && <> in stage {letter.stage}</>}
            {letter.error_class != null && (
              <>
                , <Said text={letter.error_class} />
              </>
            )}
            .{" "}
            {letter.replayed_as != null ? (
              <>
                Replayed as{" "}
                <Link href={`/jobs/${letter.replayed_as}`} className="underline">
                  {letter.replayed_as}
                </Link>
                .{" "}
              </>
            ) : letter.discarded_at != null ? (
              <>
                Discarded by <Said text={letter.discarded_by ?? "somebody"} />.{" "}
              </>
            ) : (
              "Neither replayed nor discarded yet. "
            )}
            <Link href={`/dead-letters?task=${taskId}`} className="underline">
              Open the dead letter
            </Link>
          </p>
        )}
      </Read>
    </div>
  );
}
