/** What the job page reads, and when it reads it again. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Job, Task } from "../../api/types";
import { isFinal } from "../../parts/format";
import { useCaller } from "../../session/may";
import { openTasks } from "./counts";
import { PAGE_TASKS } from "./pages";

/** Progress has no event: while a job is live, what is in sight is read again this often. */
const LIVE_MS = 3000;
/** All tasks are read for it: of a job of 100,000 tasks not more often than every 30 s. */
const TOTALS_MS_PER_TASK = 0.3;
const CHILDREN_MAX = 100;
const CHILDREN_MS = 5000;

/** A job that has ended may still have attempts that are being stopped. */
export function liveMs(job: Job | undefined): number | false {
  if (job === undefined) return false;
  return isFinal(job.state) && openTasks(job) === 0 ? false : LIVE_MS;
}

export function useJob(jobId: string) {
  return useQuery({
    queryKey: ["job", jobId],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: jobId } }, signal })),
    refetchInterval: (query) => liveMs(query.state.data),
  });
}

/** What the tasks add up to: read by the clock, and once more when the job has ended. */
export function useTotals(job: Job) {
  const jobId = job.job_id;
  const isLive = liveMs(job) !== false;
  return useQuery({
    queryKey: ["totals", jobId, isLive],
    queryFn: ({ signal }) => {
      const params = { path: { job_id: jobId }, query: { totals: true } };
      return unwrap(api.GET("/api/jobs/{job_id}", { params, signal }));
    },
    refetchInterval: isLive && Math.max(LIVE_MS, job.num_tasks * TOTALS_MS_PER_TASK),
    placeholderData: keepPreviousData,
  });
}

/**
 * The newest child jobs; more are in the list of jobs.
 *
 * News of them does not reach this key: they are read by the clock while there may be some.
 */
export function useChildren(job: Job) {
  const jobId = job.job_id;
  const caller = useCaller();
  // Whoever is for several owners or queues has to name one.
  const own = {
    ...(caller.owners.length > 0 && { owner: job.owner }),
    ...(caller.queues.length > 0 && job.queue != null && { queue: job.queue }),
  };
  return useQuery({
    queryKey: ["job", jobId, "children"],
    queryFn: ({ signal }) => {
      const query = { parent: jobId, page_size: CHILDREN_MAX, ...own };
      return unwrap(api.GET("/api/jobs", { params: { query }, signal }));
    },
    refetchInterval: ({ state: { data } }) =>
      liveMs(job) !== false || data?.jobs.some((child) => !isFinal(child.state))
        ? CHILDREN_MS
        : false,
  });
}

export function useGraph(jobId: string, isAllowed: boolean) {
  return useQuery({
    enabled: isAllowed,
    queryKey: ["job", jobId, "graph"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/jobs/{job_id}/graph", { params: { path: { job_id: jobId } }, signal })),
  });
}

export function useTask(taskId: string, job: Job) {
  return useQuery({
    queryKey: ["task", taskId, "with attempts"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/tasks/{task_id}", { params: { path: { task_id: taskId } }, signal })),
    refetchInterval: liveMs(job),
  });
}

export async function readTasks(
  jobId: string,
  asked: { task_from: number; state?: string; page_token?: string },
  signal: AbortSignal,
): Promise<{ tasks: Task[]; next_page_token?: string | null }> {
  const query = { ...asked, page_size: PAGE_TASKS };
  return unwrap(
    api.GET("/api/jobs/{job_id}/tasks", {
      params: { path: { job_id: jobId }, query },
      signal,
    }),
  );
}
