/** What the pages of schedules read. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";

const READ_AGAIN_MS = 5000;
const PAGE_SIZE = 100;

export function useSchedules() {
  return useInfiniteQuery({
    queryKey: ["schedules"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/schedules", {
          params: {
            query: { page_size: PAGE_SIZE, ...(pageParam !== null && { page_token: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_page_token,
    refetchInterval: (query) => READ_AGAIN_MS * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}

export function useSchedule(name: string) {
  return useQuery({
    queryKey: ["schedules", name],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/schedules/{schedule}", { params: { path: { schedule: name } }, signal }),
      ),
    refetchInterval: READ_AGAIN_MS,
  });
}

export function useFirings(name: string) {
  return useInfiniteQuery({
    queryKey: ["schedules", name, "firings"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/schedules/{schedule}/firings", {
          params: {
            path: { schedule: name },
            query: { page_size: PAGE_SIZE, ...(pageParam !== null && { page_token: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_page_token,
    refetchInterval: (query) => READ_AGAIN_MS * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}
