/** What the task page reads, and when it reads it again. */
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Attempt, Task } from "../../api/types";
import { isFinal } from "../../parts/format";

/** Renewals of a lease and progress have no event. */
const OPEN_MS = 2000;
/** Nor has it one when a task waits for something else than before. */
const PENDING_MS = 5000;

export function currentAttempt(task: Task): Attempt | undefined {
  return task.attempts?.find((attempt) => attempt.attempt_id === task.current_attempt_id);
}

/** Whether its worker has not let go of it yet. */
export function isHeld(attempt: Attempt | undefined): attempt is Attempt {
  return attempt !== undefined && attempt.released_at_ms == null;
}

export function useTask(taskId: string) {
  return useQuery({
    queryKey: ["task", taskId],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/tasks/{task_id}", { params: { path: { task_id: taskId } }, signal })),
    refetchInterval: ({ state: { data } }) => {
      if (data === undefined) return false;
      if (data.attempts?.some(isHeld)) return OPEN_MS;
      return isFinal(data.state) ? false : PENDING_MS;
    },
  });
}

export function useJob(jobId: string) {
  return useQuery({
    queryKey: ["job", jobId],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: jobId } }, signal })),
  });
}

export function useExplanation({ task_id, state }: Task) {
  return useQuery({
    queryKey: ["task", task_id, "explanation"],
    queryFn: ({ signal }) => {
      const params = { path: { task_id } };
      return unwrap(api.GET("/api/tasks/{task_id}/explain", { params, signal }));
    },
    refetchInterval: isFinal(state) ? false : PENDING_MS,
  });
}

/*
 * What a task was given, and what it returned in the end, do not change: their keys are not about
 * the task, or all news of its job would read them again. As text: a number of twenty digits would
 * not survive being read as a number.
 */

export function useInput(taskId: string) {
  return useQuery({
    queryKey: ["input", taskId],
    queryFn: ({ signal }) => {
      const params = { path: { task_id: taskId } };
      return unwrap(api.GET("/api/tasks/{task_id}/input", { params, signal, parseAs: "text" }));
    },
    staleTime: Infinity,
  });
}

export function useResult({ task_id, state }: Task) {
  return useQuery({
    queryKey: ["result", task_id, state],
    queryFn: ({ signal }) => {
      const params = { path: { task_id } };
      return unwrap(api.GET("/api/tasks/{task_id}/result", { params, signal, parseAs: "text" }));
    },
    staleTime: Infinity,
  });
}
