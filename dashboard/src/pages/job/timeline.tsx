/** Every attempt as a bar on a line of time; only the tasks in sight are read and drawn. */
import { type ReactNode, useState } from "react";
import type { Job, JobAttempt } from "../../api/types";
import { Empty, Failure, Panel } from "../../parts/page";
import { useParam } from "../../parts/params";
import { useNow } from "../../parts/show";
import { useBars } from "./attempts";
import { Chart, describe } from "./chart";
import { useSight } from "./rows";
import type { Span } from "./scale";

export function Timeline({ job }: { job: Job }) {
  const [sight, look] = useSight();
  const bars = useBars(job, sight);
  const [chosen, choose] = useParam("span", "job");
  const [told, tell] = useState<JobAttempt | null>(null);
  const nowMs = useNow();
  if (job.started_at_ms === null && bars.isRead && bars.all.length === 0) {
    return (
      <Panel>
        <Empty title="Nothing has been tried yet.">
          <p>The first attempt of a task will show here as a bar.</p>
        </Empty>
      </Panel>
    );
  }
  const seen = bars.all.filter(
    ({ task_index }) => task_index >= sight.first && task_index <= sight.last,
  );
  const span = chosen === "sight" ? spanOf(seen, nowMs, null) : spanOf(bars.all, nowMs, job);
  return (
    <Panel flush>
      <div className="border-line flex flex-wrap items-center justify-between gap-2 border-b px-4 py-2 text-xs">
        <p className="text-dim min-h-8 min-w-0 flex-1 basis-60 sm:min-h-4" aria-live="polite">
          {told === null
            ? "Point at a bar, or move the focus to it, to read about the attempt."
            : sentenceOf(job, told, nowMs)}
        </p>
        <div role="group" aria-label="Span of time" className="flex gap-1">
          <SpanChoice isChosen={chosen !== "sight"} onClick={() => choose("job")}>
            whole job
          </SpanChoice>
          <SpanChoice isChosen={chosen === "sight"} onClick={() => choose("sight")}>
            tasks in sight
          </SpanChoice>
        </div>
      </div>
      {bars.error && (
        <div className="p-3">
          <Failure error={bars.error} retry={bars.retry} />
        </div>
      )}
      <Chart job={job} bars={bars} span={span} nowMs={nowMs} look={look} tell={tell} />
      {bars.isCut && (
        <p className="text-dim border-line border-t px-4 py-2 text-xs">
          Some of these tasks have more attempts than are drawn. Open the task to see them all.
        </p>
      )}
    </Panel>
  );
}

/** From the first beginning to the last end, and to this moment while something runs. */
function spanOf(attempts: JobAttempt[], nowMs: number, job: Job | null): Span {
  let from = job?.started_at_ms ?? Infinity;
  let until = job === null ? -Infinity : (job.finished_at_ms ?? nowMs);
  for (const attempt of attempts) {
    from = Math.min(from, attempt.created_at_ms);
    until = Math.max(until, attempt.finished_at_ms ?? nowMs);
  }
  if (from === Infinity) from = job?.submitted_at_ms ?? nowMs;
  return { from, until: Math.max(until, from + 10) };
}

function sentenceOf(job: Job, attempt: JobAttempt, nowMs: number): ReactNode {
  return (
    <>
      <span className="text-ink font-medium">
        {job.job_id}.{attempt.task_index} attempt {attempt.attempt_id}
      </span>{" "}
      {describe(attempt, nowMs)}
    </>
  );
}

function SpanChoice(props: { isChosen: boolean; onClick: () => void; children: ReactNode }) {
  return (
    <button
      type="button"
      aria-pressed={props.isChosen}
      onClick={props.onClick}
      className={`rounded-full border px-2.5 py-0.5 whitespace-nowrap ${props.isChosen ? "border-accent bg-accent-soft text-ink font-semibold" : "border-line text-dim hover:bg-hover hover:text-ink"}`}
    >
      {props.children}
    </button>
  );
}
