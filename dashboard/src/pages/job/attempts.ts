/** The attempts of the tasks in sight, for the timeline. */
import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, unwrap } from "../../api/client";
import type { Job, JobAttempt } from "../../api/types";
import { PAGE_TASKS, pagesOf, type Sight } from "./pages";
import { liveMs } from "./reads";
import { told } from "./rows";

const PAGE_ATTEMPTS = 200;
/** So many attempts of a hundred tasks are drawn; a task that has thousands is read on its page. */
const READS_MAX = 20;

type Read = { attempts: JobAttempt[]; isCut: boolean };

export type Bars = {
  /** By the number of the task; a task that has not been read is not in it. */
  byTask: Map<number, JobAttempt[]>;
  all: JobAttempt[];
  isRead: boolean;
  isCut: boolean;
  error: Error | null;
  retry: () => void;
};

export function useBars(job: Job, sight: Sight): Bars {
  const pages = useMemo(() => pagesOf(sight, job.num_tasks), [sight, job.num_tasks]);
  const { read, error, retry } = useQueries({
    queries: pages.map((page) => ({
      queryKey: ["job", job.job_id, "attempts", page],
      queryFn: ({ signal }: { signal: AbortSignal }) => readAttempts(job.job_id, page, signal),
      refetchInterval: liveMs(job),
      gcTime: 60_000,
    })),
    combine: told<Read>,
  });
  return useMemo(() => {
    const known = read.filter((page) => page !== undefined);
    const all = known.flatMap((page) => page.attempts);
    const byTask = new Map<number, JobAttempt[]>();
    for (const attempt of all) {
      const others = byTask.get(attempt.task_index);
      if (others === undefined) byTask.set(attempt.task_index, [attempt]);
      else others.push(attempt);
    }
    const isRead = known.length === read.length;
    return { all, byTask, isRead, isCut: known.some((page) => page.isCut), error, retry };
  }, [read, error, retry]);
}

async function readAttempts(jobId: string, page: number, signal: AbortSignal): Promise<Read> {
  const first = page * PAGE_TASKS;
  const attempts: JobAttempt[] = [];
  let token: string | undefined;
  for (let reads = 0; reads < READS_MAX; reads += 1) {
    const query = { task_from: first, page_size: PAGE_ATTEMPTS, page_token: token };
    const params = { path: { job_id: jobId }, query };
    const read = await unwrap(api.GET("/api/jobs/{job_id}/attempts", { params, signal }));
    for (const attempt of read.attempts) {
      if (attempt.task_index >= first + PAGE_TASKS) return { attempts, isCut: false };
      attempts.push(attempt);
    }
    token = read.next_page_token ?? undefined;
    if (token === undefined) return { attempts, isCut: false };
  }
  return { attempts, isCut: true };
}
