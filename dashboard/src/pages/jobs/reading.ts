/** What the page reads: a page of jobs, and the child jobs of those that are opened. */
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { api, now, Refusal, unwrap } from "../../api/client";
import { type Filters, type Problem, problemOf, toQuery } from "./filters";
import { type Found, searchPage } from "./search";
import { type Children, jobOf } from "./tree";

const CHILDREN_MAX = 100;

export function useJobs(
  filters: Filters,
  token: string | null,
  { until = Infinity, isWanted = true }: { until?: number; isWanted?: boolean } = {},
) {
  const isAskable = isWanted && problemOf(filters) === null;
  return useQuery<Found, Error>({
    queryKey: ["jobs", filters, token, until],
    queryFn: ({ signal }) => {
      const asked = toQuery(filters, now());
      const end = Math.min(until, asked.submitted_until_ms ?? Infinity);
      if (end < Infinity) asked.submitted_until_ms = end;
      return searchPage((page_token, page_size) => {
        const query = { ...asked, page_size, ...(page_token !== null && { page_token }) };
        return unwrap(api.GET("/api/jobs", { params: { query }, signal }));
      }, token);
    },
    // News comes every second: neither what is refused nor a search through tens of thousands is
    // begun anew by it.
    enabled: ({ state }) => isAskable && !isLong(state.data) && refusalOf(state.error) === null,
    placeholderData: keepPreviousData,
  });
}

/** What the server does not take; anything else that fails is shown in the place of the list. */
export function refusalOf(error: Error | null): Problem | null {
  if (!(error instanceof Refusal) || error.status !== 400) return null;
  return { field: error.field, message: error.message };
}

/** Whether it took more than one request, and so is not read again by itself. */
export function isLong(found: Found | undefined): boolean {
  return found !== undefined && found.requests > 1;
}

/** Read the child jobs of opened rows; the answer tells those of a job, as far as they are known. */
export function useChildren(opened: ReadonlySet<string>): (jobId: string) => Children {
  const ids = [...new Set([...opened].map(jobOf))];
  const queries = useQueries({
    queries: ids.map((parent) => ({
      queryKey: ["jobs", "children", parent],
      queryFn: ({ signal }: { signal: AbortSignal }) => {
        const query = { parent, page_size: CHILDREN_MAX };
        return unwrap(api.GET("/api/jobs", { params: { query }, signal }));
      },
    })),
  });
  return (jobId) => {
    const query = queries[ids.indexOf(jobId)];
    if (query?.data !== undefined) {
      return { jobs: query.data.jobs, areMore: query.data.next_page_token !== null };
    }
    return query?.error ?? "reading";
  };
}
