/** How long a queue takes to drain, at the pace of the last minute. */
import type { Queue } from "../../api/types";
import { duration } from "../../parts/format";

/** In seconds: nothing to drain is 0, and what does not get shorter never ends. */
export function drainSeconds({ depth, finished_per_second: pace, paused }: Queue): number {
  if (depth === 0) return 0;
  return paused || pace <= 0 ? Infinity : depth / pace;
}

export function drainWords(queue: Queue): string | null {
  const seconds = drainSeconds(queue);
  if (seconds === 0) return null;
  if (seconds === Infinity) return queue.paused ? "paused" : "does not drain";
  // Of a guess one would not say milliseconds.
  return seconds < 1
    ? "under 1 s"
    : `about ${duration(Math.round(seconds) * 1000).replace(".0", "")}`;
}

/** 12.5 a second; what is slower is said by the minute. */
export function paceWords(perSecond: number): string {
  if (perSecond <= 0) return "0 / s";
  if (perSecond >= 1) return `${round(perSecond)} / s`;
  return `${round(perSecond * 60)} / min`;
}

function round(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en-US");
}
