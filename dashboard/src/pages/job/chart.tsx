/** Tasks from top to bottom, time from left to right. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import type { Job, JobAttempt } from "../../api/types";
import { absolute, dateTime, duration, stateName, workerName } from "../../parts/format";
import { inert } from "../../parts/text";
import type { Bars } from "./attempts";
import { marks, share, type Span } from "./scale";

const ROW_PIXELS = 28;
const MARK_PIXELS = 110;
/** A name that would be cut by the edge is left out. */
const NAME_PIXELS = 90;

export function Chart({
  job,
  bars,
  span,
  nowMs,
  look,
  tell,
}: {
  job: Job;
  bars: Bars;
  span: Span;
  nowMs: number;
  look: (first: number, last: number) => void;
  tell: (attempt: JobAttempt | null) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [width, measure] = useWidth();
  const virtual = useVirtualizer({
    count: job.num_tasks,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PIXELS,
    overscan: 10,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items[items.length - 1]?.index ?? 0;
  useEffect(() => look(first, last), [look, first, last]);
  const axis = marks(span, Math.max(1, Math.floor(width / MARK_PIXELS)));
  return (
    <div
      ref={box}
      tabIndex={0}
      role="region"
      aria-label="Timeline, scrolled"
      className="overflow-x-hidden overflow-y-auto"
      style={{ maxHeight: "max(20rem, calc(100dvh - 20rem))" }}
    >
      <div className="border-line bg-panel sticky top-0 z-10 flex border-b" aria-hidden="true">
        <div className="text-dim w-24 shrink-0 px-3 py-1.5 text-xs font-medium">Task</div>
        <div ref={measure} className="relative mr-3 h-7 min-w-0 flex-1 overflow-hidden">
          {axis.map(({ at, name }) => (
            <span
              key={at}
              title={absolute(at)}
              className="border-line text-dim absolute top-0 h-full border-l py-1.5 pl-1 text-xs whitespace-nowrap tabular-nums"
              style={{ left: `${share(span, at) * 100}%` }}
            >
              {(1 - share(span, at)) * width > NAME_PIXELS && name}
            </span>
          ))}
        </div>
      </div>
      <ol aria-label="Timeline" className="relative" style={{ height: virtual.getTotalSize() }}>
        <Grid axis={axis} span={span} />
        {items.map(({ index, start }) => (
          <li
            key={index}
            aria-posinset={index + 1}
            aria-setsize={job.num_tasks}
            className="hover:bg-hover/60 absolute inset-x-0 flex items-center"
            style={{ top: start, height: ROW_PIXELS }}
          >
            <Link
              href={`/tasks/${job.job_id}.${index}`}
              className="w-24 shrink-0 truncate px-3 font-mono text-xs"
            >
              {job.job_id}.{index}
            </Link>
            <div className="relative mr-3 h-full min-w-0 flex-1">
              {bars.byTask.get(index)?.map((attempt) => (
                <Bar
                  key={attempt.attempt_id}
                  job={job}
                  attempt={attempt}
                  span={span}
                  nowMs={nowMs}
                  tell={tell}
                />
              ))}
            </div>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Grid({ axis, span }: { axis: { at: number }[]; span: Span }) {
  return (
    <li role="presentation" aria-hidden="true" className="absolute inset-y-0 right-3 left-24">
      {axis.map(({ at }) => (
        <div
          key={at}
          className="border-line absolute inset-y-0 border-l opacity-50"
          style={{ left: `${share(span, at) * 100}%` }}
        />
      ))}
    </li>
  );
}

/** Light while it waits for its process, full from its start on. */
function Bar({
  job,
  attempt,
  span,
  nowMs,
  tell,
}: {
  job: Job;
  attempt: JobAttempt;
  span: Span;
  nowMs: number;
  tell: (attempt: JobAttempt | null) => void;
}) {
  const end = attempt.finished_at_ms ?? Math.max(nowMs, attempt.created_at_ms);
  const from = share(span, attempt.created_at_ms);
  const length = share(span, end) - from;
  const started = attempt.started_at_ms ?? end;
  const waited = length === 0 ? 0 : (share(span, started) - from) / length;
  const look = `status-${stateName(attempt.state)}`;
  return (
    <Link
      href={`/tasks/${job.job_id}.${attempt.task_index}?attempt=${attempt.attempt_id}`}
      aria-label={`Task ${job.job_id}.${attempt.task_index} attempt ${attempt.attempt_id}: ${describe(attempt, nowMs)}`}
      className="absolute top-1.5 bottom-1.5 flex min-w-[3px] overflow-hidden rounded-xs hover:brightness-125"
      style={{ left: `min(${from * 100}%, calc(100% - 3px))`, width: `${length * 100}%` }}
      onMouseEnter={() => tell(attempt)}
      onFocus={() => tell(attempt)}
    >
      <span className={`${look} opacity-45`} style={{ width: `${waited * 100}%` }} />
      <span className={`${look} flex-1`} />
    </Link>
  );
}

function useWidth(): [number, (element: HTMLElement | null) => void] {
  const [width, setWidth] = useState(600);
  const [element, setElement] = useState<HTMLElement | null>(null);
  useEffect(() => {
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return [width, setElement];
}

/** An attempt in a few words. */
export function describe(attempt: JobAttempt, nowMs: number): string {
  const { created_at_ms: created, started_at_ms: started, finished_at_ms: finished } = attempt;
  const worker = inert(workerName(attempt.worker_id));
  const failed = attempt.is_worker_failure ? " (worker failure)" : "";
  const end = finished ?? Math.max(nowMs, created);
  const parts = [`${stateName(attempt.state)}${failed} on ${worker}`, `from ${dateTime(created)}`];
  if (started !== null && started > created) parts.push(`${duration(started - created)} to start`);
  if (started !== null) {
    parts.push(`${duration(end - started)} ${finished === null ? "so far" : "at work"}`);
  } else {
    parts.push(`never started, ${duration(end - created)} held`);
  }
  return parts.join(", ");
}
