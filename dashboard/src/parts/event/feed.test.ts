import { expect, test } from "vitest";
import type { Event } from "../../api/types";
import { EVENTS_MAX, eventsOf, type Feed, readOn } from "./feed";

const START = Date.parse("2026-01-15T10:00:00Z");

/** A server with pages of a given size, whose tokens are places in the order of time and id. */
class Server {
  log: Event[] = [];
  reads = 0;
  constructor(readonly pageSize: number) {}

  add(id: number, ms: number): void {
    const event = { id, ts: new Date(START + ms).toISOString() } as Event;
    this.log = [...this.log, event].sort((a, b) => a.ts.localeCompare(b.ts) || a.id - b.id);
  }

  fetch = async (token: string | undefined) => {
    this.reads += 1;
    const place = (event: Event) => `${event.ts} ${String(event.id).padStart(9, "0")}`;
    const left = this.log.filter((event) => token === undefined || place(event) > token);
    const events = left.slice(0, this.pageSize);
    const last = events.at(-1);
    return { events, next_page_token: left.length > events.length && last ? place(last) : null };
  };
}

const ids = (feed: Feed | undefined) => eventsOf(feed).map((event) => event.id);

test("what comes is read on, whatever the order in which it was committed", async () => {
  const server = new Server(3);
  let feed: Feed | undefined;
  // An id that is a multiple of 5 was begun three places earlier, and is seen only now.
  for (let id = 1; id <= 200; id += 1) {
    server.add(id, (id % 5 === 0 ? id - 3.5 : id) * 1000);
    feed = await readOn(feed, server.fetch, { more: 20, nowMs: START + id * 1000 });
    expect(ids(feed)).toEqual(server.log.map((event) => event.id));
  }
  // Old pages are not read again and again.
  expect(server.reads).toBeLessThan(200 * 25);
});

test("pages that are not asked for are not read", async () => {
  const server = new Server(10);
  for (let id = 1; id <= 95; id += 1) server.add(id, id);
  const at = { nowMs: START + 3_600_000 };
  let feed = await readOn(undefined, server.fetch, { ...at, more: 1 });
  expect(ids(feed).length).toBe(10);
  feed = await readOn(feed, server.fetch, { ...at, more: 0 });
  expect([ids(feed).length, server.reads]).toEqual([10, 1]);
  feed = await readOn(feed, server.fetch, { ...at, more: 20 });
  expect([ids(feed).length, feed.next, server.reads]).toEqual([95, null, 10]);
  server.add(96, 3_600_000);
  feed = await readOn(feed, server.fetch, { ...at, more: 0 });
  expect([ids(feed).at(-1), server.reads]).toEqual([96, 11]);
});

test("the oldest are let go", async () => {
  const server = new Server(1000);
  const many = Array.from({ length: 25_500 }, (_, at) => ({
    id: at,
    ts: new Date(START + at).toISOString(),
  }));
  server.log = many as Event[];
  const at = { nowMs: START + 3_600_000, more: 20 };
  let feed = await readOn(undefined, server.fetch, at);
  feed = await readOn(feed, server.fetch, at);
  expect(ids(feed).length).toBeLessThanOrEqual(EVENTS_MAX);
  expect(feed.leftOut + ids(feed).length).toBe(25_500);
  expect(ids(feed).at(-1)).toBe(25_499);
});
