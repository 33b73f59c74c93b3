/**
 * One stream per tab tells which jobs have changed; what is on the screen is then read again.
 *
 * Hints, not data: nothing is lost by a break, because the server goes on after the last message
 * that was seen, or says that anything may have changed.
 */
import { type Query, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useState } from "react";
import { root } from "../api/client";
import { isAbout } from "./keys";

const RETRY_MS_FIRST = 500;
const RETRY_MS_MAX = 8000;
/** Under load there is news all the time: lists are read again this often, not more. */
const FLUSH_MS = 1000;

const Live = createContext(false);

/** Whether the stream is open: what the screen shows is as new as it can be. */
export function useIsLive(): boolean {
  return use(Live);
}

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [isLive, setIsLive] = useState(false);
  useEffect(() => {
    const changed = new Set<string>();
    let late = new Set<string>();
    let everything = false;
    let flushing: ReturnType<typeof setTimeout> | undefined;
    let flushedAt = 0;
    function flush() {
      const jobs = new Set(changed);
      const all = everything;
      const again = late;
      changed.clear();
      everything = false;
      flushing = undefined;
      flushedAt = performance.now();
      const predicate = (query: Query) =>
        all || again.has(query.queryHash) || isAbout(query.queryKey, jobs);
      const isUnderWay = (query: Query) =>
        query.state.fetchStatus === "fetching" && predicate(query);
      // A read under way goes on: under steady news one that is begun anew would never end. But it
      // may have begun before what is new now, so it is made once more.
      const underWay = client.getQueryCache().findAll({ type: "active", predicate: isUnderWay });
      late = new Set(underWay.map((query) => query.queryHash));
      void client.invalidateQueries({ predicate }, { cancelRefetch: false });
      if (late.size > 0) flushing = setTimeout(flush, FLUSH_MS);
    }
    const stop = follow((jobIds, all) => {
      jobIds.forEach((id) => changed.add(id));
      everything ||= all;
      const wait = Math.max(0, flushedAt + FLUSH_MS - performance.now());
      flushing ??= setTimeout(flush, wait);
    }, setIsLive);
    return () => {
      stop();
      clearTimeout(flushing);
    };
  }, [client]);
  return <Live value={isLive}>{children}</Live>;
}

/** Follow the stream until told to stop, connecting again for as long as it takes. */
function follow(
  onChange: (jobIds: string[], all: boolean) => void,
  onLive: (isLive: boolean) => void,
): () => void {
  let source: EventSource | undefined;
  let retrying: ReturnType<typeof setTimeout> | undefined;
  let retryMs = RETRY_MS_FIRST;
  let last: string | null = null;
  function connect() {
    const address = new URL("api/changes/stream", root);
    if (last !== null) address.searchParams.set("after", last);
    source = new EventSource(address);
    source.onopen = () => {
      retryMs = RETRY_MS_FIRST;
      onLive(true);
    };
    source.onmessage = (message) => {
      last = message.lastEventId;
      const told = JSON.parse(message.data) as { job_ids: string[]; all: boolean };
      onChange(told.job_ids, told.all);
    };
    // Not left to the browser, which gives up for good when a proxy answers with an error.
    source.onerror = () => {
      source?.close();
      onLive(false);
      retrying = setTimeout(connect, retryMs);
      retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
    };
  }
  connect();
  return () => {
    clearTimeout(retrying);
    source?.close();
  };
}
