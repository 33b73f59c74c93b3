/** The rows of the task table: only those in sight are read, and read again. */
import { type UseQueryResult, useQueries } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Job, Task } from "../../api/types";
import { PAGE_TASKS, pagesOf, placed, type Sight } from "./pages";
import { liveMs, readTasks } from "./reads";

/** Whoever drags a scroll bar passes by a thousand pages and reads none of them. */
const REST_MS = 80;
const KEPT_MS = 60_000;
const RANGE_READS_MAX = 20;
const AHEAD_ROWS = 20;

export type Rows = {
  rows: readonly (Task | undefined)[];
  error: Error | null;
  retry: () => void;
  isRead: boolean;
};

/** Which rows are in sight, once the table has come to rest. */
export function useSight(): [Sight, (first: number, last: number) => void] {
  const [sight, setSight] = useState<Sight>({ first: 0, last: 0 });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const look = useCallback((first: number, last: number) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSight({ first, last }), REST_MS);
  }, []);
  return [sight, look];
}

type Told<Data> = { read: (Data | undefined)[]; error: Error | null; retry: () => void };

export function told<Data>(results: UseQueryResult<Data, Error>[]): Told<Data> {
  return {
    read: results.map((result) => result.data),
    error: results.find((result) => result.error !== null)?.error ?? null,
    retry: () => results.forEach((result) => result.error && void result.refetch()),
  };
}

/** All tasks: the place of each is known, so any of them can be read without those before it. */
export function useAllRows(job: Job, sight: Sight): Rows {
  const pages = useMemo(() => pagesOf(sight, job.num_tasks), [sight, job.num_tasks]);
  const { read, error, retry } = useQueries({
    queries: pages.map((page) => ({
      queryKey: ["job", job.job_id, "tasks", "", page],
      queryFn: async ({ signal }: { signal: AbortSignal }) =>
        (await readTasks(job.job_id, { task_from: page * PAGE_TASKS }, signal)).tasks,
      refetchInterval: liveMs(job),
      gcTime: KEPT_MS,
    })),
    combine: told<Task[]>,
  });
  const rows = useMemo(() => placed(job.num_tasks, pages, read), [job.num_tasks, pages, read]);
  return { rows, error, retry, isRead: read.some((page) => page !== undefined) };
}

type Stretch = { tasks: Task[]; next: number | null };

/**
 * The tasks in one state: read page by page as one scrolls down.
 *
 * A page is the stretch of task numbers that it had when it was first read. Tasks come and go
 * within it, but none is shown on two pages.
 */
export function useRowsInState(job: Job, state: string, sight: Sight): Rows {
  const [starts, setStarts] = useState<number[]>([0]);
  const places = useRef<Sight[]>([]);
  const { read, error, retry } = useQueries({
    queries: starts.map((from, page) => ({
      queryKey: ["job", job.job_id, "tasks", state, from],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        readStretch(job.job_id, { state, from, end: starts[page + 1] ?? null }, signal),
      refetchInterval: liveMs(job),
      enabled: isSeen(places.current[page], sight) || page === starts.length - 1,
    })),
    combine: told<Stretch>,
  });
  const next = read[read.length - 1]?.next ?? null;
  const rows = useMemo(() => {
    const all: (Task | undefined)[] = [];
    places.current = read.map((page) => {
      const first = all.length;
      page?.tasks.forEach((task) => all.push(task));
      return { first, last: all.length };
    });
    if (next !== null) all.push(undefined);
    return all;
  }, [read, next]);
  useEffect(() => {
    if (next === null || sight.last < rows.length - AHEAD_ROWS) return;
    setStarts((before) => (next > (before[before.length - 1] ?? 0) ? [...before, next] : before));
  }, [next, sight, rows.length]);
  return { rows, error, retry, isRead: read[0] !== undefined };
}

function isSeen(place: Sight | undefined, sight: Sight): boolean {
  return place === undefined || (place.first <= sight.last && place.last >= sight.first);
}

async function readStretch(
  jobId: string,
  { state, from, end }: { state: string; from: number; end: number | null },
  signal: AbortSignal,
): Promise<Stretch> {
  const tasks: Task[] = [];
  let token: string | undefined;
  for (let reads = 0; reads < RANGE_READS_MAX; reads += 1) {
    const page = await readTasks(jobId, { state, task_from: from, page_token: token }, signal);
    tasks.push(...page.tasks);
    token = page.next_page_token ?? undefined;
    const last = tasks[tasks.length - 1]?.task_index ?? from;
    if (end === null) return { tasks, next: token === undefined ? null : last + 1 };
    if (token === undefined || last >= end - 1) break;
  }
  return { tasks: tasks.filter((task) => task.task_index < (end ?? Infinity)), next: null };
}
