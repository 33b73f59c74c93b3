/** What the page reads, and what it reads again after it has changed something. */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, unwrap } from "../../api/client";
import type { DeadLetterSummary } from "../../api/types";
import { asked, type Filter } from "./filter";

const PAGE_SIZE = 50;
/** By the clock: to tell thousands of errors apart at every news would be a burden. */
const SUMMARY_MS = 5000;

export function readSummary(filter: Filter): Promise<DeadLetterSummary> {
  const { fingerprint: _kind, ...query } = asked(filter);
  return unwrap(api.GET("/api/dead-letters:summary", { params: { query } }));
}

export function useSummary(filter: Filter) {
  return useQuery({
    queryKey: [
      "letter-summary",
      filter.reason,
      filter.stage,
      filter.type,
      filter.queue,
      filter.job,
    ],
    queryFn: () => readSummary(filter),
    refetchInterval: SUMMARY_MS,
    placeholderData: keepPreviousData,
  });
}

export function useLetters(filter: Filter, order: string, page: string) {
  return useQuery({
    queryKey: ["letters", filter, order, page],
    queryFn: () =>
      unwrap(
        api.GET("/api/dead-letters", {
          params: {
            query: {
              ...asked(filter),
              ...(filter.settled === "1" && { settled: true }),
              ...(order === "newest" && { newest: true }),
              ...(page !== "" && { page_token: page }),
              page_size: PAGE_SIZE,
            },
          },
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

export function useLetter(taskId: string) {
  return useQuery({
    // Not one of ["letters"]: those are read again at the news of any job.
    queryKey: ["task", taskId, "letter"],
    queryFn: ({ signal }) => {
      const params = { path: { task_id: taskId } };
      return unwrap(api.GET("/api/dead-letters/{task_id}", { params, signal }));
    },
  });
}

export function useReadAgain(): () => void {
  const client = useQueryClient();
  return useCallback(() => {
    const kinds = new Set<unknown>(["letters", "letter-summary", "task"]);
    void client.invalidateQueries({ predicate: ({ queryKey: [kind] }) => kinds.has(kind) });
  }, [client]);
}
