/** One task: how it stands, every attempt, its output, and why it stands where it stands. */
import { Link, useSearchParams } from "wouter";
import type { Job, Task } from "../../api/types";
import { AttemptTable } from "../../parts/attempts";
import { EventList } from "../../parts/events";
import { LogView } from "../../parts/logs";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { Copy, Told } from "../../parts/show";
import { Tabs } from "../../parts/tabs";
import { inert } from "../../parts/text";
import { Needs } from "../../session/limits";
import { Actions, Neighbours } from "./actions";
import { Head } from "./head";
import { useExplanation, useJob, useTask } from "./reads";
import { Values } from "./values";

export function TaskPage({ taskId }: { taskId: string }) {
  const task = useTask(taskId);
  const jobId = taskId.split(".")[0] ?? "";
  const job = useJob(jobId);
  const index = task.data?.task_index ?? taskId.split(".")[1] ?? "";
  return (
    <Page
      title={`Task ${taskId}`}
      heading={
        <>
          Task:{" "}
          <Link href={`/jobs/${jobId}`}>
            <bdi>{inert(job.data?.name ?? jobId)}</bdi>
          </Link>
          /task-{index}
          <Copy text={taskId} what="task id" />
        </>
      }
      actions={
        task.data &&
        job.data && (
          <>
            <Neighbours task={task.data} job={job.data} />
            <Actions task={task.data} job={job.data} />
          </>
        )
      }
    >
      <Read query={task} what="the task">
        {(found) => (
          <Read query={job} what="the job">
            {(its) => <Shown task={found} job={its} />}
          </Read>
        )}
      </Read>
    </Page>
  );
}

function Shown({ task, job }: { task: Task; job: Job }) {
  const attempts = task.attempts ?? [];
  return (
    <>
      <Head task={task} job={job} />
      <Tabs
        tabs={[
          [
            "attempts",
            `Attempts (${attempts.length})`,
            () => (
              <Panel title="Attempt History:" flush>
                <AttemptTable
                  taskId={task.task_id}
                  attempts={attempts}
                  currentId={task.current_attempt_id}
                />
              </Panel>
            ),
          ],
          [
            "logs",
            "Logs",
            () => (
              <Needs role="data" what="Logs are">
                <Logs task={task} />
              </Needs>
            ),
          ],
          [
            "values",
            "Input and result",
            () => (
              <Needs role="data" what="Input and result are">
                <Values task={task} job={job} />
              </Needs>
            ),
          ],
          ["events", "Events", () => <EventList source={{ kind: "task", id: task.task_id }} />],
          ["explain", "Explain", () => <Explain task={task} />],
        ]}
      />
    </>
  );
}

/** The log of the current attempt, whichever that is by now, or of the one that the address names. */
function Logs({ task }: { task: Task }) {
  const [params, setParams] = useSearchParams();
  const attempts = task.attempts ?? [];
  if (attempts.length === 0) {
    return (
      <Panel>
        <Empty title="It has not been tried yet.">What it writes is shown here.</Empty>
      </Panel>
    );
  }
  const { current_attempt_id: current } = task;
  const chosen = params.get("attempt");
  const named = attempts.find((attempt) => String(attempt.attempt_id) === chosen);
  const attempt = named?.attempt_id ?? current;
  function choose(id: number) {
    setParams((before) => {
      const after = new URLSearchParams(before);
      // A line of one attempt is none of another; to choose the current one is to stay with it.
      after.delete("line");
      if (id === current) after.delete("attempt");
      else after.set("attempt", String(id));
      return after;
    });
  }
  return (
    <div className="flex flex-col gap-3">
      {attempts.length > 1 && (
        <div className="flex flex-wrap items-center gap-3">
          <label className="text-dim flex items-center gap-2">
            Attempt
            <select
              value={attempt}
              onChange={(event) => choose(Number(event.target.value))}
              className="border-line bg-panel text-ink rounded-md border px-2 py-1"
            >
              {attempts.map(({ attempt_id: id }) => (
                <option key={id} value={id}>
                  {id === current ? `${id} (curr)` : id}
                </option>
              ))}
            </select>
          </label>
          {attempt !== current && (
            <button type="button" className="text-accent" onClick={() => choose(current)}>
              Go to attempt {current}, the current one
            </button>
          )}
        </div>
      )}
      <LogView key={attempt} source={{ kind: "attempt", taskId: task.task_id, attempt }} />
    </div>
  );
}

function Explain({ task }: { task: Task }) {
  const query = useExplanation(task);
  return (
    <Panel title="Why it stands where it stands">
      <Read query={query} what="the explanation">
        {({ lines }) => (
          <ol className="flex flex-col gap-2">
            {lines.map((line, place) => (
              <li key={place} className="whitespace-pre-wrap">
                <Told text={line} lengthMax={20_000} />
              </li>
            ))}
          </ol>
        )}
      </Read>
    </Panel>
  );
}
