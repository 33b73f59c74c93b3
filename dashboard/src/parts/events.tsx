/** What happened to a job or to a task, in the order of time, followed as it happens. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { api, now, unwrap } from "../api/client";
import { columnsOf, EventDetail } from "./event/columns";
import { eventsOf, type Feed, type FetchPage, readOn } from "./event/feed";
import { TypeChoice } from "./event/types";
import { count, plural } from "./format";
import { Empty, Read } from "./page";
import { useParam } from "./params";
import { Table } from "./table";

export type EventSource = { kind: "job" | "task"; id: string };

/** Read at once; one who wants to see the end of more than that asks for it. */
const PAGES_AT_FIRST = 20;
const LOOK_AGAIN_MS = 10_000;
const END_PIXELS = 40;

export function EventList({ source }: { source: EventSource }) {
  const [type, setType] = useParam("event");
  // Where the end is too far to be read at once, one begins at the beginning.
  const [isFollowing, setIsFollowing] = useState<boolean | null>(null);
  const { query, more, isReading } = useEvents(source, type, isFollowing === true);
  const feed = query.data;
  useEffect(() => setIsFollowing(null), [type]);
  useEffect(() => {
    if (isFollowing === null && feed !== undefined) setIsFollowing(feed.next === null);
  }, [isFollowing, feed]);
  const events = useMemo(() => eventsOf(feed), [feed]);
  const isDated = events[0] !== undefined && !isToday(Date.parse(events[0].ts));
  const columns = useMemo(() => columnsOf(source.kind, isDated), [source.kind, isDated]);
  const hasMore = feed !== undefined && feed.next !== null;

  const box = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  useLayoutEffect(() => {
    const scrolled = box.current?.querySelector('[role="region"]');
    if (!isFollowing || scrolled == null) return;
    scrolled.scrollTop = scrolled.scrollHeight;
    lastTop.current = scrolled.scrollTop;
  }, [isFollowing, events]);
  function scrolled(target: HTMLElement) {
    const fromEnd = target.scrollHeight - target.scrollTop - target.clientHeight;
    if (fromEnd > END_PIXELS && target.scrollTop < lastTop.current) setIsFollowing(false);
    else if (fromEnd <= END_PIXELS && !hasMore) setIsFollowing(true);
    lastTop.current = target.scrollTop;
  }
  const last = events.length - 1;
  const sight = useCallback(
    (_: number, inSight: number) => {
      if (hasMore && inSight >= last) more();
    },
    [hasMore, last, more],
  );

  return (
    <section
      aria-label={`Events of ${source.kind} ${source.id}`}
      className="border-line bg-panel min-w-0 rounded-lg border"
    >
      <div className="border-line flex flex-wrap items-center gap-3 border-b px-3 py-2">
        <label className="text-dim flex items-center gap-2 text-xs">
          Type
          <TypeChoice value={type} onChoose={setType} />
        </label>
        <span role="status" className="text-dim text-xs">
          {plural(events.length, "event")}
          {hasMore && (isReading ? ", reading on …" : ", there are more")}
          {feed !== undefined && feed.leftOut > 0 && `; ${count(feed.leftOut)} before are left out`}
        </span>
        <button
          type="button"
          aria-pressed={isFollowing === true}
          onClick={() => setIsFollowing(!isFollowing)}
          className={`ml-auto rounded-full border px-2.5 py-0.5 text-xs ${isFollowing ? "border-accent bg-accent-soft text-ink" : "border-line text-dim hover:text-ink"}`}
        >
          Follow
        </button>
      </div>
      <Read query={query} what="the events">
        {() => (
          <div ref={box} onScrollCapture={(event) => scrolled(event.target as HTMLElement)}>
            <Table
              label={`Events of ${source.kind} ${source.id}`}
              rows={events}
              columns={columns}
              rowKey={(event) => String(event.id)}
              height="70vh"
              detail={(event) => <EventDetail event={event} />}
              onSight={sight}
              empty={
                <Empty
                  title={type === "" ? "Nothing has happened yet." : "There is no such event."}
                >
                  {type !== "" && (
                    <button type="button" className="text-accent" onClick={() => setType("")}>
                      Show all types
                    </button>
                  )}
                </Empty>
              }
            />
          </div>
        )}
      </Read>
    </section>
  );
}

/** The events that were read, a function to read one more page, and whether it reads just now. */
function useEvents(source: EventSource, type: string, isFollowing: boolean) {
  const client = useQueryClient();
  const key = useMemo(
    () => [source.kind, source.id, "events", type],
    [source.kind, source.id, type],
  );
  const wanted = useRef(PAGES_AT_FIRST);
  useEffect(() => {
    wanted.current = PAGES_AT_FIRST;
  }, [key]);
  const query = useQuery<Feed>({
    queryKey: key,
    queryFn: async ({ signal }) => {
      const more = wanted.current;
      const before = client.getQueryData<Feed>(key);
      const feed = await readOn(before, pageOf(source, type, signal), { more, nowMs: now() });
      // Only now: what could not be read is still wanted. More may have been asked for meanwhile.
      if (wanted.current === more) wanted.current = 0;
      return feed;
    },
    // Notes beside the log have no news.
    refetchInterval: LOOK_AGAIN_MS,
    structuralSharing: false,
    gcTime: 0,
  });
  const { refetch, data, isFetching } = query;
  const more = useCallback(
    (pages = 1) => {
      wanted.current = Math.max(wanted.current, pages);
      void refetch({ cancelRefetch: false });
    },
    [refetch],
  );
  useEffect(() => {
    // To follow is to read to the end, however far that is.
    if (isFollowing && !isFetching && data !== undefined && data.next !== null)
      more(PAGES_AT_FIRST);
  }, [isFollowing, isFetching, data, more]);
  return { query, more, isReading: isFetching };
}

function isToday(ms: number): boolean {
  return new Date(ms).toDateString() === new Date(now()).toDateString();
}

function pageOf(source: EventSource, type: string, signal: AbortSignal): FetchPage {
  return (token) => {
    const query = { type: type === "" ? undefined : type, page_token: token };
    return source.kind === "job"
      ? unwrap(
          api.GET("/api/jobs/{job_id}/events", {
            params: { path: { job_id: source.id }, query },
            signal,
          }),
        )
      : unwrap(
          api.GET("/api/tasks/{task_id}/events", {
            params: { path: { task_id: source.id }, query },
            signal,
          }),
        );
  };
}
