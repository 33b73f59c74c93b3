/**
 * Events, read page by page and then on as they come: none missed, none twice.
 *
 * Pages are in the order of time, but who commits last need not have begun last: an event may
 * appear before one that has been read. So pages that are not a minute old are read again, each
 * from the same place; only then are they kept.
 */
import type { Event } from "../../api/types";

const SETTLING_MS = 60_000;
const PAGES_PER_READ_MAX = 20;
export const EVENTS_MAX = 20_000;

type Page = { token: string | undefined; events: Event[]; isSettled: boolean };

export type Feed = {
  pages: Page[];
  /** Leads on; null where all has been read. */
  next: string | null;
  /** How many events were let go to make room. */
  leftOut: number;
};

export type FetchPage = (
  token: string | undefined,
) => Promise<{ events: Event[]; next_page_token?: string | null }>;

/** Read what is new, and if `more` are wanted, pages that have not been read yet. */
export async function readOn(
  before: Feed | undefined,
  fetchPage: FetchPage,
  { more, nowMs }: { more: number; nowMs: number },
): Promise<Feed> {
  const known = before?.pages ?? [];
  const changing = known.findIndex((page) => !page.isSettled);
  const pages = changing === -1 ? [...known] : known.slice(0, changing);
  const again = known[pages.length];
  let token = again === undefined ? (before?.next ?? undefined) : again.token;
  let wanted = known.length - pages.length + Math.min(more, PAGES_PER_READ_MAX);
  const isAtEnd = before !== undefined && before.next === null;
  let next: string | null = before?.next ?? null;
  // What is new at the end is always wanted: it may begin a page of its own.
  if (isAtEnd) wanted += PAGES_PER_READ_MAX;
  while (wanted > 0) {
    const page = await fetchPage(token);
    next = page.next_page_token ?? null;
    const last = page.events.at(-1);
    const isOld = last !== undefined && Date.parse(last.ts) < nowMs - SETTLING_MS;
    pages.push({ token, events: page.events, isSettled: next !== null && isOld });
    if (next === null) break;
    token = next;
    wanted -= 1;
  }
  return letGo({ pages, next, leftOut: before?.leftOut ?? 0 });
}

function letGo({ pages, next, leftOut }: Feed): Feed {
  let size = pages.reduce((sum, page) => sum + page.events.length, 0);
  let gone = 0;
  let left = leftOut;
  for (const page of pages) {
    // A page that is read again has to stay, or it would be read from its beginning.
    if (size <= EVENTS_MAX || !page.isSettled) break;
    size -= page.events.length;
    left += page.events.length;
    gone += 1;
  }
  return { pages: pages.slice(gone), next, leftOut: left };
}

export function eventsOf(feed: Feed | undefined): Event[] {
  return feed?.pages.flatMap((page) => page.events) ?? [];
}
