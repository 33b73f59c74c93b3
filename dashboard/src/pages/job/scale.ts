/** Where moments lie on a line of time, and where its marks are. */
import { clock, dateTime } from "../../parts/format";

const MILLISECOND = 1;
const SECOND = 1000 * MILLISECOND;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Distances that people count in; above the last, whole multiples of days. */
const STEPS_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * MILLISECOND),
  ...[1, 2, 5, 10, 15, 30].map((step) => step * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((step) => step * MINUTE),
  ...[1, 2, 3, 6, 12].map((step) => step * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365, 3650].map((step) => step * DAY),
];

export type Span = { from: number; until: number };

/** Both ends as a share of the span, kept within it. */
export function share({ from, until }: Span, ms: number): number {
  return until <= from ? 0 : Math.min(Math.max((ms - from) / (until - from), 0), 1);
}

/** The marks of an axis: at most so many, at round distances, in the reader's own time zone. */
export function marks({ from, until }: Span, countMax: number): { at: number; name: string }[] {
  const step = STEPS_MS.find((ms) => (until - from) / ms <= countMax) ?? 36500 * DAY;
  // Days begin at midnight here, not in Greenwich.
  const zone = new Date(from).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((from - zone) / step) * step + zone;
  const found = [];
  for (let at = first; at <= until && found.length <= countMax; at += step) {
    found.push({ at, name: nameOf(at, step) });
  }
  return found;
}

function nameOf(at: number, step: number): string {
  if (step >= DAY) return dateTime(at).slice(0, 10);
  if (step >= MINUTE) return clock(at).slice(0, 5);
  if (step >= SECOND) return clock(at);
  return `${clock(at)}.${String(Math.floor(at % SECOND)).padStart(3, "0")}`;
}
