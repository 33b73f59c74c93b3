/** Rows of the list: its jobs, and below each that is opened its child jobs. */
import type { Job } from "../../api/types";

/** The child jobs of a job, as far as they are known. */
export type Children = { jobs: Job[]; areMore: boolean } | Error | "reading";

export type TreeRow = {
  /** A job may be shown twice: in the list, and below its parent. */
  key: string;
  job: Job;
  depth: number;
  isOpened: boolean;
  /** Of an opened one. */
  children: Children | null;
};

export function growTree(
  jobs: Job[],
  opened: ReadonlySet<string>,
  childrenOf: (jobId: string) => Children,
  above: { key: string; depth: number } | null = null,
): TreeRow[] {
  return jobs.flatMap((job) => {
    const key = above === null ? job.job_id : `${job.job_id} below ${above.key}`;
    const depth = above === null ? 0 : above.depth + 1;
    const isOpened = opened.has(key);
    const children = isOpened ? childrenOf(job.job_id) : null;
    const row = { key, job, depth, isOpened, children };
    if (children === null || children === "reading" || children instanceof Error) return [row];
    return [row, ...growTree(children.jobs, opened, childrenOf, row)];
  });
}

/** The job of a row. */
export function jobOf(key: string): string {
  return key.split(" ", 1)[0] ?? key;
}

/** Which jobs are selected after the rows that show them are: the others stay as they were. */
export function reselect(
  before: ReadonlyMap<string, Job>,
  rows: TreeRow[],
  keys: ReadonlySet<string>,
): Map<string, Job> {
  const after = new Map(before);
  for (const { key, job } of rows) {
    const was = before.has(job.job_id);
    if (keys.has(key) === was) continue;
    if (was) after.delete(job.job_id);
    else after.set(job.job_id, job);
  }
  return after;
}

/**
 * Hold back jobs that came after somebody began to read: rows do not move under the pointer.
 * Without a newest id that is held, all are shown.
 */
export function holdBack(jobs: Job[], newestId: string | null): { shown: Job[]; held: number } {
  if (newestId === null) return { shown: jobs, held: 0 };
  const newest = BigInt(newestId);
  const shown = jobs.filter((job) => BigInt(job.job_id) <= newest);
  return { shown, held: jobs.length - shown.length };
}
