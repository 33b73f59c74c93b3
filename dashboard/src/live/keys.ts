/**
 * The names under which answers are kept, and which of them news of a job concerns.
 *
 * A key begins with what it is about: ["jobs", ...] lists, ["job", id, ...], ["task", id, ...],
 * ["letters", ...]; pages on the fleet ("overview", "workers", "queues", "datasets") read again by
 * the clock, since much of what they show has no event; so are the "totals" of a job, which are
 * added up over all of its tasks.
 */
import type { QueryKey } from "@tanstack/react-query";

/** Most news is of no dead letter, and does not say so: their lists need not follow each. */
const LETTERS_REST_MS = 5000;

export function isAbout(key: QueryKey, jobIds: Set<string> | "any"): boolean {
  const [kind, id] = key;
  if (kind === "jobs" || kind === "letters") return true;
  if (jobIds === "any") return kind === "job" || kind === "task";
  if (kind === "job") return jobIds.has(String(id));
  if (kind === "task") return jobIds.has(String(id).split(".")[0] ?? "");
  return false;
}

/** How long an answer is good enough, whatever the news. */
export function restMs(key: QueryKey): number {
  return key[0] === "letters" ? LETTERS_REST_MS : 0;
}
