/**
 * One page of the list, read in as many requests as it takes, up to a bound.
 *
 * The server looks through so many jobs for one answer and then says where to go on: a short
 * answer with a token is not the end.
 */
import type { Job } from "../../api/types";

export const PAGE_SIZE = 50;
const REQUESTS_MAX = 5;
const EXAMINED_MAX = 10_000;

export type Answer = { jobs: Job[]; next_page_token?: string | null };
export type Found = {
  jobs: Job[];
  /** Where older ones begin; null at the end of the list. */
  older: string | null;
  requests: number;
};

export async function searchPage(
  ask: (token: string | null, pageSize: number) => Promise<Answer>,
  token: string | null,
): Promise<Found> {
  const jobs: Job[] = [];
  let older = token;
  for (let requests = 1; ; requests += 1) {
    const answer = await ask(older, PAGE_SIZE - jobs.length);
    jobs.push(...answer.jobs);
    older = answer.next_page_token ?? null;
    if (older === null || jobs.length >= PAGE_SIZE || requests === REQUESTS_MAX) {
      return { jobs, older, requests };
    }
  }
}

/** Whether the search was given up before the page was full or the list at its end. */
export function isGivenUp(found: Found): boolean {
  return found.older !== null && found.jobs.length < PAGE_SIZE;
}

/** How many jobs the server has looked at, at most. */
export function lookedAt(found: Found): number {
  return found.requests * EXAMINED_MAX;
}
