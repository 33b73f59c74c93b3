/**
 * The names under which answers are kept, and which of them news of a job concerns.
 *
 * A key begins with what it is about: ["jobs", ...] lists, ["job", id, ...], ["task", id, ...],
 * ["letters", ...]; pages on the fleet ("overview", "workers", "queues", "datasets") read again by
 * the clock, since much of what they show has no event.
 */
import type { QueryKey } from "@tanstack/react-query";

export function isAbout(key: QueryKey, jobIds: Set<string>): boolean {
  const [kind, id] = key;
  if (kind === "jobs" || kind === "letters") return true;
  if (kind === "job") return jobIds.has(String(id));
  if (kind === "task") return jobIds.has(String(id).split(".")[0] ?? "");
  return false;
}
