/**
 * One stream per tab tells which jobs have changed; what is on the screen is then read again.
 *
 * Hints, not data: nothing is lost by a break, because the server goes on after the last message
 * that was seen, or says that anything may have changed.
 */
import { type Query, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useState } from "react";
import { root, strangers } from "../api/client";
import { useScope } from "../session/may";
import { isAbout, restMs } from "./keys";
import { follow } from "./stream";

/** Under load there is news all the time: lists are read again this often, not more. */
const FLUSH_MS = 1000;
/** The stream is about everybody's jobs: whoever is kept to some reads again by the clock. */
const SCOPED_MS = 5000;

const Live = createContext(false);

/** Whether the stream is open: what the screen shows is as new as it can be. */
export function useIsLive(): boolean {
  return use(Live);
}

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [isLive, setIsLive] = useState(false);
  const isScoped = useScope() !== null;
  useEffect(() => {
    const reader = new Reader(client);
    const stop = isScoped
      ? readByTheClock(reader, setIsLive)
      : follow(
          new URL("api/changes/stream", root),
          (jobIds, all) => reader.hear(jobIds, all),
          (isOpen) => {
            setIsLive(isOpen);
            // It may have ended because the session has: a stream cannot tell.
            if (!isOpen) strangers.dispatchEvent(new Event("seen"));
          },
        );
    return () => {
      stop();
      reader.stop();
    };
  }, [client, isScoped]);
  return <Live value={isLive}>{children}</Live>;
}

function readByTheClock(reader: Reader, onLive: (isLive: boolean) => void): () => void {
  const timer = setInterval(() => document.hidden || reader.hearOfAny(), SCOPED_MS);
  onLive(true);
  return () => clearInterval(timer);
}

/** Gathers news for a moment, then has what it concerns read again. */
class Reader {
  private readonly changed = new Set<string>();
  private anyJob = false;
  private everything = false;
  /** What is to be read once more, by the hash of its key. */
  private late = new Set<string>();
  private flushing: ReturnType<typeof setTimeout> | undefined;
  private flushedAt = 0;

  constructor(private readonly client: QueryClient) {}

  hear(jobIds: string[], all: boolean): void {
    jobIds.forEach((id) => this.changed.add(id));
    this.everything ||= all;
    this.flushSoon();
  }

  /** Any job may have changed: not what stands in a question, nor what has a clock of its own. */
  hearOfAny(): void {
    this.anyJob = true;
    this.flushSoon();
  }

  stop(): void {
    clearTimeout(this.flushing);
  }

  private flushSoon(): void {
    const wait = Math.max(0, this.flushedAt + FLUSH_MS - performance.now());
    this.flushing ??= setTimeout(() => this.flush(), wait);
  }

  private flush(): void {
    const jobs = this.anyJob ? "any" : new Set(this.changed);
    const { everything, late } = this;
    this.changed.clear();
    this.anyJob = false;
    this.everything = false;
    this.flushing = undefined;
    this.flushedAt = performance.now();
    const isConcerned = (query: Query) =>
      everything || late.has(query.queryHash) || isAbout(query.queryKey, jobs);
    // A read under way goes on: under steady news one that is begun anew would never end. But it
    // may have begun before what is new now, so it is made once more.
    const mustWait = (query: Query) =>
      query.state.fetchStatus === "fetching" ||
      Date.now() - query.state.dataUpdatedAt < restMs(query.queryKey);
    const waiting = this.client
      .getQueryCache()
      .findAll({ type: "active", predicate: (query) => isConcerned(query) && mustWait(query) });
    this.late = new Set(waiting.map((query) => query.queryHash));
    void this.client.invalidateQueries({
      predicate: (query) => isConcerned(query) && !this.late.has(query.queryHash),
    });
    if (this.late.size > 0) this.flushing = setTimeout(() => this.flush(), FLUSH_MS);
  }
}
