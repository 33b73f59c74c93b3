/** What the pages of limits read. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";

const READ_AGAIN_MS = 3000;
const PAGE_SIZE = 100;

export function useLimits() {
  return useInfiniteQuery({
    queryKey: ["limits"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/limits", {
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

/** One limit and its buckets, or the one bucket of a value. */
export function useLimit(name: string, value: string) {
  return useInfiniteQuery({
    queryKey: ["limits", name, value],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/limits/{limit}", {
          params: {
            path: { limit: name },
            query: {
              page_size: PAGE_SIZE,
              ...(value !== "" && { value }),
              ...(pageParam !== null && { page_token: pageParam }),
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_page_token,
    refetchInterval: (query) => READ_AGAIN_MS * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}

export function useShares() {
  return useQuery({
    queryKey: ["shares"],
    queryFn: ({ signal }) => unwrap(api.GET("/api/shares", { signal })),
    refetchInterval: READ_AGAIN_MS,
  });
}
