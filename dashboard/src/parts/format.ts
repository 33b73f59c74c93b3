/** Times, durations, amounts and states in words. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The lower-case name of a state as the API says it: TASK_STATE_RUNNING is running. */
export function stateName(state: string): string {
  return state.replace(/^(TASK|JOB)_STATE_/, "").toLowerCase();
}

const FINAL = new Set([
  "succeeded",
  "failed",
  "killed",
  "worker_failed",
  "unschedulable",
  "dead_lettered",
]);

/** Whether a job in this state will never change again. */
export function isFinal(state: string): boolean {
  return FINAL.has(stateName(state));
}

/** A duration in its two largest units: 340 ms, 4.2 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
export function duration(ms: number): string {
  const rest = Math.max(0, ms);
  if (rest < SECOND) return `${Math.round(rest)} ms`;
  if (rest < 10 * SECOND) return `${(Math.floor(rest / 100) / 10).toFixed(1)} s`;
  if (rest < MINUTE) return `${Math.floor(rest / SECOND)} s`;
  if (rest < HOUR) return two(rest, MINUTE, "min", SECOND, "s");
  if (rest < DAY) return two(rest, HOUR, "h", MINUTE, "min");
  return two(rest, DAY, "d", HOUR, "h");
}

function two(ms: number, large: number, largeName: string, small: number, smallName: string) {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** The largest unit of a duration alone: 3 min of 3 min 5 s. */
function largest(ms: number): string {
  return duration(ms).split(/(?<=[a-z]) (?=\d)/)[0] ?? "";
}

/** How long ago, or how long until: "3 min ago", "in 20 s", "just now". */
export function relative(ms: number, nowMs: number): string {
  const away = Math.abs(nowMs - ms);
  if (away < 2 * SECOND) return "just now";
  const said = away < MINUTE ? `${Math.floor(away / SECOND)} s` : largest(away);
  return ms <= nowMs ? `${said} ago` : `in ${said}`;
}

const pad = (value: number, width = 2) => String(value).padStart(width, "0");

/** 10:30:05, in the reader's own time zone. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** 10:30:05.007, in the reader's own time zone. */
export function instant(ms: number): string {
  return `${clock(ms)}.${pad(Math.floor(ms % 1000), 3)}`;
}

/** 2026-01-15 10:30:05, in the reader's own time zone. */
export function dateTime(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(ms)}`;
}

const MOMENTS = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;

/** A sentence of the server's, with the moments in it in the reader's own time zone. */
export function localTimes(sentence: string, nowMs: number): string {
  const today = dateTime(nowMs).slice(0, 10);
  return sentence.replace(MOMENTS, (text) => {
    const local = dateTime(Date.parse(text));
    return local.startsWith(today) ? local.slice(11) : local;
  });
}

/** The whole truth about a moment, for a hover: with milliseconds and the zone. */
export function absolute(ms: number): string {
  const offset = -new Date(ms).getTimezoneOffset();
  const sign = offset < 0 ? "-" : "+";
  const zone = `${pad(Math.floor(Math.abs(offset) / 60))}:${pad(Math.abs(offset) % 60)}`;
  return `${dateTime(ms)}.${pad(Math.floor(ms % 1000), 3)} ${sign}${zone}`;
}

/** 1,234 up to a hundred thousand, then 1.2 M. */
export function count(value: number): string {
  if (value < 100_000) return Math.round(value).toLocaleString("en-US");
  if (value < 1_000_000) return `${Math.round(value / 1000)} k`;
  return `${(value / 1_000_000).toFixed(value < 10_000_000 ? 1 : 0)} M`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** One thing, or several: 1 task, 3 tasks. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A worker's id is its name and, after a dash, what tells its processes apart. */
export function workerName(workerId: string): string {
  return workerId.replace(/-[0-9a-f]{12}$/, "");
}
