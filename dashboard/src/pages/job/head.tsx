/** What a job is and how it stands, before its tasks are looked at one by one. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Job } from "../../api/types";
import { count, plural } from "../../parts/format";
import { Usage } from "../../parts/attempts";
import { Panel } from "../../parts/page";
import {
  Ago,
  Badge,
  Block,
  Clock,
  Copy,
  Fact,
  Facts,
  Id,
  Nothing,
  Said,
  Took,
} from "../../parts/show";
import { inert, shorten } from "../../parts/text";
import { useScope } from "../../session/may";
import { StateBar } from "./counts";
import { useTotals } from "./reads";
import { Waiting } from "./waiting";

const ERROR_LENGTH_MAX = 300;

export function Head({ job }: { job: Job }) {
  return (
    <Panel>
      <div className="flex flex-col gap-4">
        <div className="flex flex-col gap-1.5">
          <p className="flex flex-wrap items-center gap-x-2">
            Status: <Badge state={job.state} /> <Stopping job={job} />
          </p>
          <p>
            Started: <Clock ms={job.started_at_ms} date />
          </p>
          <p>
            <Said text={job.status_message} />
          </p>
          <Waiting job={job} />
          <StateBar job={job} />
        </div>
        <Causes causes={job.causes} />
        {job.error !== null && isOwnError(job) && <JobError error={job.error} />}
        {job.tasks_dead_lettered > 0 && (
          <p>
            <Link href={`/dead-letters?job=${job.job_id}`}>
              {plural(job.tasks_dead_lettered, "dead letter")} of this job
            </Link>
          </p>
        )}
        <JobFacts job={job} />
      </div>
    </Panel>
  );
}

function Stopping({ job }: { job: Job }) {
  if (job.cancel_mode === null || job.finished_at_ms !== null) return null;
  if (job.cancelled_by === null) return <span className="text-warn">being stopped</span>;
  return <span className="text-warn">being cancelled, {job.cancel_mode}</span>;
}

/** Whether the error is that of a task; what else ended the job stands among its causes. */
function isOwnError(job: Job): boolean {
  const [nearest] = job.causes;
  return nearest === undefined || (nearest.kind === "task" && nearest.message !== job.error);
}

/** What ended the job, and what brought that about; where it began comes last. */
function Causes({ causes }: { causes: Job["causes"] }) {
  if (causes.length === 0) return null;
  return (
    <div>
      <p className="text-dim text-xs" id="causes">
        Why it ended
      </p>
      <ol aria-labelledby="causes" className="flex flex-col gap-0.5">
        {causes.map((cause, place) => (
          <li key={place} className="min-w-0 break-words">
            {place > 0 && <span className="text-dim">because </span>}
            <Blamed cause={cause} />
            {place > 0 && place === causes.length - 1 && (
              <span className="text-dim"> (root cause)</span>
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}

/** Its sentence, in which the name of the task or the job leads there. */
function Blamed({ cause }: { cause: Job["causes"][number] }) {
  const { message, task_id: task, job_id: job, kind } = cause;
  const [name, to] = task ? [`task ${task}`, `/tasks/${task}`] : [`job ${job}`, `/jobs/${job}`];
  const at = message.indexOf(name);
  if (kind === "cancel" || at === -1) return <Said text={message} />;
  return (
    <>
      <Said text={message.slice(0, at)} />
      <Link href={to} className="underline">
        {name}
      </Link>
      <Said text={message.slice(at + name.length)} />
    </>
  );
}

function JobError({ error }: { error: string }) {
  const [first = ""] = error.split("\n", 1);
  const rest = error.trimEnd().length > first.length || first.length > ERROR_LENGTH_MAX;
  return (
    <div className="text-bad">
      <p className="text-dim text-xs">Error</p>
      {rest ? (
        <details>
          <summary className="break-words">
            <bdi>{shorten(inert(first), ERROR_LENGTH_MAX)}</bdi>
          </summary>
          <div className="text-ink mt-2">
            <Block text={error} label="error of the job" />
          </div>
        </details>
      ) : (
        <Said text={first} />
      )}
    </div>
  );
}

function JobFacts({ job }: { job: Job }) {
  // A graph may lead to jobs of others.
  const isScoped = useScope() !== null;
  const links = linksOf(job);
  return (
    <div className="flex flex-col gap-2">
      <Facts isDense>
        <Fact name="Type">
          <Link href={`/jobs?type=${encodeURIComponent(job.type)}`}>
            <Said text={job.type} />
          </Link>
        </Fact>
        {job.queue === null ? (
          <Fact name="Placed">
            on workers, {job.is_gang ? "all tasks together" : "task by task"}
          </Fact>
        ) : (
          <Fact name="Queue">
            <Link href={`/jobs?queue=${encodeURIComponent(job.queue)}`}>
              <Said text={job.queue} />
            </Link>
          </Fact>
        )}
        <Fact name="Owner">
          <Link
            href={`/jobs?owner=${encodeURIComponent(job.owner)}`}
            title={inert(job.owner)}
            className="line-clamp-2"
          >
            <Said text={job.owner} />
          </Link>
        </Fact>
        <Fact name="Submitted">
          <Ago ms={job.submitted_at_ms} />
        </Fact>
        {job.finished_at_ms !== null && (
          <Fact name="Finished">
            <Ago ms={job.finished_at_ms} />
          </Fact>
        )}
        <Fact name={job.finished_at_ms === null ? "Takes so far" : "Took"}>
          <Took from={job.started_at_ms} to={job.finished_at_ms} />
        </Fact>
        <Totals job={job} />
        <Terms job={job} />
        {Object.keys(job.labels).length > 0 && (
          <Fact name="Labels">
            <Labels labels={job.labels} />
          </Fact>
        )}
        {job.unmet_dependencies > 0 && (
          <Fact name="Waits for">
            {isScoped ? (
              plural(job.unmet_dependencies, "job")
            ) : (
              <Link href={`/jobs/${job.job_id}?tab=dependencies`}>
                {plural(job.unmet_dependencies, "job")}
              </Link>
            )}
          </Fact>
        )}
        {links.map(([name, id, query]) => (
          <Fact key={name} name={name}>
            job <Id id={id} to={`/jobs/${id}${query}`} what="job id" />
          </Fact>
        ))}
        {job.cancelled_by !== null && (
          <Fact name={`Cancelled ${job.cancel_mode === "hard" ? "hard" : "softly"}`}>
            by <Said text={job.cancelled_by} />:{" "}
            <Said text={job.cancel_reason ?? "no reason given"} />
          </Fact>
        )}
        {job.exit_code !== null && <Fact name="Exit code">{job.exit_code}</Fact>}
      </Facts>
      <MoreFacts job={job} />
    </div>
  );
}

/** What is looked up now and then: folded away, so that the tasks are in sight. */
function MoreFacts({ job }: { job: Job }) {
  return (
    <details>
      <summary className="text-dim text-xs">Priority, correlation id and more</summary>
      <div className="mt-2">
        <Facts isDense>
          <Fact name="Priority">{job.priority}</Fact>
          {job.released_at_ms !== null && (
            <Fact name="Dependencies met">
              <Ago ms={job.released_at_ms} />
            </Fact>
          )}
          <LongId name="Correlation id" id={job.correlation_id} />
          <LongId name="Trace id" id={job.trace_id} />
          <LongId name="Idempotency key" id={job.idempotency_key} />
        </Facts>
      </div>
    </details>
  );
}

/** Under which terms it was submitted: by when it has to start, as the only one, by a schedule. */
function Terms({ job }: { job: Job }) {
  const isScoped = useScope() !== null;
  const { terms } = job;
  if (terms == null) return null;
  const { expires_at_ms: expires, unique, firing } = terms;
  return (
    <>
      {expires != null && (
        <Fact name="Expires, if not started">
          <Clock ms={expires} date />
        </Fact>
      )}
      {unique != null && (
        <Fact name="Unique">
          <Said text={`by ${unique.by}, while ${unique.states.map(inWords).join(" or ")}`} />
          {!unique.holds_key && <span className="text-dim"> (no more)</span>}
        </Fact>
      )}
      {firing != null && (
        <Fact name="Schedule">
          {isScoped ? (
            <Said text={firing.schedule} />
          ) : (
            <Link href={`/schedules/${encodeURIComponent(firing.schedule)}`}>
              <Said text={firing.schedule} />
            </Link>
          )}
          {", for "}
          <Clock ms={firing.instant_ms} date />
        </Fact>
      )}
    </>
  );
}

function inWords(state: string): string {
  return state.replace("_", " ");
}

function Totals({ job }: { job: Job }) {
  const totals = useTotals(job).data;
  const failures = totals?.failure_count;
  const losses = totals?.preemption_count;
  return (
    <>
      <Fact name="Failures, all tasks">{failures == null ? <Nothing /> : count(failures)}</Fact>
      <Fact name="Lost workers and preemptions">
        {losses == null ? <Nothing /> : count(losses)}
      </Fact>
      {totals?.resource_usage != null && <Usage usage={totals.resource_usage} />}
    </>
  );
}

/** The other jobs that this one has to do with, by what it has to do with them. */
function linksOf(job: Job): [name: string, id: string, query: string][] {
  const undone = job.is_compensated === false ? "Not undone by" : "Undone by";
  const all: [string, string | null, string][] = [
    ["Parent", job.parent_job_id, ""],
    ["Replay of", job.replay_of, ""],
    ["Undoes", job.compensates_job_id, ""],
    [job.is_compensated === null ? "Being undone by" : undone, job.compensated_by, ""],
    ["Graph", job.graph_id, "?tab=dependencies"],
  ];
  return all.filter((link): link is [string, string, string] => link[1] !== null);
}

function Labels({ labels }: { labels: Record<string, string> }): ReactNode {
  const all = Object.entries(labels);
  if (all.length === 0) return <Nothing />;
  return (
    <span className="flex flex-wrap gap-1">
      {all.map(([key, value]) => (
        <Link
          key={key}
          href={`/jobs?label=${encodeURIComponent(`${key}=${value}`)}`}
          className="bg-accent-soft max-w-full truncate rounded px-1.5 text-xs leading-5"
        >
          <bdi>{inert(`${key}=${value}`)}</bdi>
        </Link>
      ))}
    </span>
  );
}

/** Too long for its place: cut by the edge, whole on hover and when it is copied. */
function LongId({ name, id }: { name: string; id: string | null }) {
  if (id === null) return null;
  return (
    <Fact name={name}>
      <span className="flex min-w-0" title={inert(id)}>
        <bdi className="truncate font-mono text-[0.8125rem]">{inert(id)}</bdi>
        <Copy text={id} what={name.toLowerCase()} />
      </span>
    </Fact>
  );
}
