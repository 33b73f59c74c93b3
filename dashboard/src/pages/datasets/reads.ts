/** What the pages of datasets read. Much of it has no news, so it is read again by the clock. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];
export type Dataset = Schemas["DatasetStatus"];
export type Version = Schemas["VersionStatus"];
export type Entry = Schemas["Entry"];
export type Difference = Schemas["EntryDifference"];
export type CutOver = Schemas["CutOverRecord"];
export type Trigger = Schemas["TriggerStatus"];

const AGAIN_MS = 5000;
const PAGE_SIZE = 50;
const ENTRIES_PAGE_SIZE = 500;

/** The parameters of a page: the first one has no token. */
function paged(token: string, page_size: number) {
  return { page_size, ...(token !== "" && { page_token: token }) };
}

/** Pages are read again only while there is one: to read many again takes longer than it is worth. */
function whileShort({ state }: { state: { data?: { pages: unknown[] } | undefined } }) {
  return (state.data?.pages.length ?? 1) === 1 ? AGAIN_MS : false;
}

const following = (page: { next_page_token?: string | null }) => page.next_page_token ?? undefined;

export function useDatasets(prefix: string, page: string) {
  return useQuery({
    queryKey: ["datasets", "list", prefix, page],
    queryFn: () => {
      const query = { ...paged(page, PAGE_SIZE), ...(prefix !== "" && { name: prefix }) };
      return unwrap(api.GET("/api/datasets", { params: { query } }));
    },
    refetchInterval: AGAIN_MS,
    placeholderData: keepPreviousData,
  });
}

export function useDataset(dataset: string) {
  return useQuery({
    queryKey: ["datasets", "one", dataset],
    queryFn: () => unwrap(api.GET("/api/datasets/{dataset}", { params: { path: { dataset } } })),
    refetchInterval: AGAIN_MS,
  });
}

/** A version that was current is sealed, and stays as it is: read once, it need not be read again. */
export function useSealedVersion(dataset: string, version: number | null) {
  return useQuery({
    queryKey: ["datasets", "sealed", dataset, version],
    queryFn: () =>
      unwrap(
        api.GET("/api/datasets/{dataset}/versions/{version}", {
          params: { path: { dataset, version: String(version) } },
        }),
      ),
    enabled: version !== null,
    staleTime: Infinity,
  });
}

export function useVersions(dataset: string) {
  return useInfiniteQuery({
    queryKey: ["datasets", "versions", dataset],
    queryFn: ({ pageParam }) =>
      unwrap(
        api.GET("/api/datasets/{dataset}/versions", {
          params: { path: { dataset }, query: paged(pageParam, PAGE_SIZE) },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: following,
    refetchInterval: whileShort,
  });
}

/** Whether nothing in a version can change any more, as far as the versions have been read. */
function useIsSealed(dataset: string, version: string): boolean {
  const versions = useVersions(dataset).data?.pages.flatMap((page) => page.versions);
  return versions?.find((one) => String(one.version) === version)?.state === "sealed";
}

export function useEntries(dataset: string, version: string) {
  const isSealed = useIsSealed(dataset, version);
  return useInfiniteQuery({
    queryKey: ["datasets", "entries", dataset, version],
    queryFn: ({ pageParam }) =>
      unwrap(
        api.GET("/api/datasets/{dataset}/versions/{version}/entries", {
          params: { path: { dataset, version }, query: paged(pageParam, ENTRIES_PAGE_SIZE) },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: following,
    refetchInterval: isSealed ? false : whileShort,
  });
}

export function useComparison(dataset: string, from: string, to: string) {
  const isFromSealed = useIsSealed(dataset, from);
  const isToSealed = useIsSealed(dataset, to);
  return useInfiniteQuery({
    queryKey: ["datasets", "compared", dataset, from, to],
    queryFn: ({ pageParam }) =>
      unwrap(
        api.GET("/api/datasets/{dataset}:compare", {
          params: {
            path: { dataset },
            query: { from, to, ...paged(pageParam, ENTRIES_PAGE_SIZE) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: following,
    refetchInterval: isFromSealed && isToSealed ? false : whileShort,
  });
}

export function useCutOvers(dataset: string) {
  return useInfiniteQuery({
    queryKey: ["datasets", "cut-overs", dataset],
    queryFn: ({ pageParam }) =>
      unwrap(
        api.GET("/api/datasets/{dataset}/cut-overs", {
          params: { path: { dataset }, query: paged(pageParam, PAGE_SIZE) },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: following,
    refetchInterval: whileShort,
  });
}

export function useTriggers(dataset: string) {
  return useQuery({
    queryKey: ["datasets", "triggers", dataset],
    queryFn: () =>
      unwrap(api.GET("/api/datasets/{dataset}/triggers", { params: { path: { dataset } } })),
    refetchInterval: AGAIN_MS,
  });
}
