/** What an action on the selected jobs would do, in words. */
import type { Job } from "../../api/types";
import { duration, isFinal, plural } from "../../parts/format";

export type Mode = "soft" | "hard";

const IDS_MAX = 8;

export function isLive(job: Job): boolean {
  return !isFinal(job.state);
}

/** Whether a cancel would change anything; hard goes beyond soft. */
export function canCancel(job: Job, mode: Mode): boolean {
  return isLive(job) && job.cancel_mode !== "hard" && job.cancel_mode !== mode;
}

export function hasDeadLetters(job: Job): boolean {
  return job.tasks_dead_lettered > 0;
}

/** 4180, 4181 and 12 others. */
export function idList(jobs: readonly Job[]): string {
  const ids = jobs.slice(0, IDS_MAX).map((job) => job.job_id);
  const rest = jobs.length - ids.length;
  if (rest > 0) return `${ids.join(", ")} and ${plural(rest, "other")}`;
  return [ids.slice(0, -1).join(", "), ids.at(-1)].filter(Boolean).join(" and ");
}

/**
 * What cancelling these jobs does, a sentence each.
 *
 * `graces` are those of the jobs with tasks on workers, in seconds, if all of them are known;
 * `children` are the live child jobs of all, or null if that is not known.
 */
export function cancelWords(
  selected: readonly Job[],
  mode: Mode,
  { graces, children }: { graces: number[] | null; children: number | null },
): string[] {
  const jobs = selected.filter((job) => canCancel(job, mode));
  const running = sum(jobs, (job) => job.tasks_running);
  const starting = sum(jobs, (job) => job.tasks_assigned + job.tasks_building);
  const pending = sum(jobs, (job) => job.tasks_pending);
  const words: string[] = [];
  if (running + starting === 0) words.push("Nothing of it runs now.");
  else words.push(`${onWorkers(running, starting)} ${stopWords(running + starting, mode, graces)}`);
  if (pending > 0) {
    words.push(`${plural(pending, "waiting task")} ${pending === 1 ? "is" : "are"} killed.`);
  }
  if (children === null) words.push("Live child jobs are cancelled too.");
  else if (children > 0) {
    const are = children === 1 ? "is" : "are";
    words.push(`${plural(children, "live child job")} ${are} cancelled too, with all below.`);
  }
  return words.concat(skippedWords(selected, mode));
}

function onWorkers(running: number, starting: number): string {
  if (starting === 0) return plural(running, "running task");
  if (running === 0) return plural(starting, "task") + " about to start";
  return `${plural(running + starting, "task")} (${running} running, ${starting} about to start)`;
}

function stopWords(tasks: number, mode: Mode, graces: number[] | null): string {
  if (mode === "hard") return `${tasks === 1 ? "is" : "are"} killed at once, without grace.`;
  return `${tasks === 1 ? "gets" : "get"} SIGTERM and ${graceWords(graces)} to end.`;
}

function graceWords(graces: number[] | null): string {
  if (graces === null || graces.length === 0) return "the grace of the job";
  const [least, most] = [Math.min(...graces), Math.max(...graces)];
  if (least === most) return seconds(least);
  return `${seconds(least)} up to ${seconds(most)}, as the job has it,`;
}

/** A whole number of seconds is not written with a point. */
function seconds(value: number): string {
  return duration(value * 1000).replace(/\.0 s$/, " s");
}

function skippedWords(selected: readonly Job[], mode: Mode): string[] {
  const ended = selected.filter((job) => !isLive(job));
  const told = selected.filter((job) => isLive(job) && !canCancel(job, mode));
  const words: string[] = [];
  if (ended.length > 0) words.push(`Skipped, since ended: ${idList(ended)}.`);
  if (told.length > 0) words.push(`Skipped, since cancelled before: ${idList(told)}.`);
  return words;
}

/**
 * What running these jobs again does; `tasks` is how many tasks, where the server has told it, and
 * `refused` how many of the jobs it would not take.
 */
export function rerunWords(
  selected: readonly Job[],
  { tasks, refused }: { tasks: number | null; refused: number },
): string[] {
  const live = selected.filter(isLive);
  const jobs = selected.length - live.length - refused;
  const all = tasks === null ? "all tasks" : plural(tasks, "task");
  const words =
    jobs === 0
      ? ["None of them can be run again."]
      : [`${plural(jobs, "new job")} with ${all}: everything runs from the start.`];
  if (live.length > 0) words.push(`Skipped, since live: ${idList(live)}.`);
  return words;
}

/** What replaying the dead letters of these jobs does. */
export function replayWords(selected: readonly Job[], tasks: number | null): string[] {
  const others = selected.filter((job) => !hasDeadLetters(job));
  const asWhat = selected.length - others.length === 1 ? "as a new job" : "as new jobs";
  const words = [
    tasks === null
      ? `Dead letters that are not settled run again, ${asWhat}.`
      : tasks === 0
        ? "There is nothing to replay: all of their dead letters are settled."
        : `${plural(tasks, "dead letter")} ${tasks === 1 ? "runs" : "run"} again, ${asWhat}.`,
  ];
  if (others.length > 0) words.push(`Skipped, since without dead letters: ${idList(others)}.`);
  return words;
}

function sum(jobs: readonly Job[], value: (job: Job) => number): number {
  return jobs.reduce((total, job) => total + value(job), 0);
}
