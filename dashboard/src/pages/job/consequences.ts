/** What a cancel will do, said before it is done. */
import type { Job } from "../../api/types";
import { duration, plural } from "../../parts/format";
import { openTasks } from "./counts";

/** By how the job stood when it was last read. */
export function consequencesOf(
  job: Job,
  mode: "soft" | "hard",
  children: { live: number; isMore: boolean },
): string[] {
  const lines: string[] = [];
  const open = openTasks(job);
  const grace = Number(job.spec?.["grace"] ?? 30);
  if (job.tasks_pending > 0) {
    lines.push(
      `${plural(job.tasks_pending, "pending task")} ${be(job.tasks_pending)} KILLED at once.`,
    );
  }
  if (open > 0 && mode === "soft") {
    const gets = open === 1 ? "gets" : "get";
    lines.push(
      `${plural(open, "running task")} ${gets} SIGTERM and ${duration(grace * 1000)} to end.`,
    );
  }
  if (open > 0 && mode === "hard") {
    lines.push(`${plural(open, "running task")} ${be(open)} KILLED at once, without any grace.`);
  }
  if (lines.length === 0) lines.push("It has no task left that waits or runs.");
  if (children.live > 0) {
    const many = children.isMore
      ? "or more child jobs"
      : children.live === 1
        ? "child job"
        : "child jobs";
    const are = children.live === 1 && !children.isMore ? "is" : "are";
    lines.push(`${children.live} ${many} ${are} cancelled too, and theirs.`);
  }
  return lines;
}

function be(count: number): string {
  return count === 1 ? "is" : "are";
}
