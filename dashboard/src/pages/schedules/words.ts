/** A schedule in words. */
import type { Firing, Schedule } from "../../api/types";
import { count, duration } from "../../parts/format";

/** When it fires: "0 3 * * * Europe/Berlin", "every 1 h 30 min". */
export function timing(schedule: Pick<Schedule, "cron" | "every" | "tz">): string {
  if (schedule.every != null) return `every ${duration(schedule.every * 1000)}`;
  return `${schedule.cron ?? ""} ${schedule.tz}`.trim();
}

/** What becomes of instants that passed while nobody looked. */
export function catchUp(
  schedule: Pick<Schedule, "catch_up" | "catch_up_max" | "late_max">,
): string {
  const late = duration(schedule.late_max * 1000);
  if (schedule.catch_up === "one") return `the last one, if it is more than ${late} late`;
  if (schedule.catch_up === "all") return `all, ${count(schedule.catch_up_max)} at most`;
  return `left out if more than ${late} late`;
}

const OVERLAPS: Record<string, string> = {
  skip: "left out while the last job runs",
  queue: "waits for the last job",
  cancel: "cancels the last job",
  allow: "runs beside the last job",
};

export function overlap(schedule: Pick<Schedule, "overlap">): string {
  return OVERLAPS[schedule.overlap] ?? schedule.overlap;
}

const KINDS: Record<string, string> = {
  scheduled: "on time",
  caught_up: "caught up",
  manual: "by hand",
  backfill: "backfill",
};

export function kindOf(firing: Pick<Firing, "kind">): string {
  return KINDS[firing.kind] ?? firing.kind;
}

/** A moment as a date field of the browser has it, in local time; and back. */
export function toField(ms: number): string {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, 16);
}

export function fromField(text: string): number | null {
  const ms = new Date(text).getTime();
  return text === "" || Number.isNaN(ms) ? null : ms;
}
