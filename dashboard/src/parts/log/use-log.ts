/** Follow a log for as long as it is looked at. */
import { useEffect, useRef, useState } from "react";
import { Refusal } from "../../api/client";
import { count } from "../format";
import { type Line, LogBuffer } from "./buffer";
import { type LogSource, type Piece, reader } from "./read";

/** Between looks, once all has been read. The server waits for more of one attempt, but not of a job. */
const LOOK_AGAIN_MS = { job: 1000, attempt: 250 };
const RETRY_MS_MAX = 8000;
/** What comes is drawn this often, not more. */
const DRAW_MS = 150;

export type Log = {
  lines: Line[];
  leftOut: number;
  /** All that there was has been read once. */
  isRead: boolean;
  isComplete: boolean;
  error: Error | null;
};

const NOTHING: Log = { lines: [], leftOut: 0, isRead: false, isComplete: false, error: null };

/** The log, and a function to begin again; lines that are being read are let go later. */
export function useLog(source: LogSource, isReading: boolean): [Log, again: () => void] {
  const [log, setLog] = useState(NOTHING);
  const [begun, setBegun] = useState(0);
  const reading = useRef(isReading);
  reading.current = isReading;
  const name = source.kind === "job" ? source.id : `${source.taskId}.${source.attempt}`;
  const latest = useRef(source);
  latest.current = source;

  useEffect(() => {
    const ending = new AbortController();
    const { signal } = ending;
    setLog(NOTHING);
    void read(latest.current, { signal, isReading: () => reading.current, tell: setLog });
    return () => ending.abort();
  }, [source.kind, name, begun]);
  return [log, () => setBegun((times) => times + 1)];
}

type Reading = { signal: AbortSignal; isReading: () => boolean; tell: (log: Log) => void };

async function read(source: LogSource, { signal, isReading, tell }: Reading): Promise<void> {
  const buffer = new LogBuffer();
  const readOn = reader(source);
  const state = { isRead: false, isComplete: false, error: null as Error | null };
  let retryMs = 500;
  let drawnAt = 0;
  function draw() {
    drawnAt = performance.now();
    tell({ ...state, lines: buffer.lines(), leftOut: buffer.leftOut });
  }
  while (!signal.aborted && !state.isComplete) {
    try {
      // That there is nothing yet, or that the server is back, is news: then it does not wait.
      const follow = state.isRead && state.error === null;
      const step = await readOn({ follow, signal });
      for (const piece of step.pieces) append(buffer, piece, isReading());
      Object.assign(state, { isComplete: step.isComplete, error: null });
      state.isRead ||= step.isEnd || step.isComplete;
      if (step.isComplete) buffer.end();
      retryMs = 500;
      if (state.isRead || performance.now() - drawnAt > DRAW_MS) draw();
      if (state.isRead && !state.isComplete) {
        await pause(LOOK_AGAIN_MS[source.kind], signal);
        await inSight(signal);
      }
    } catch (problem) {
      if (signal.aborted) return;
      state.error = problem instanceof Error ? problem : new Error(String(problem));
      draw();
      // What the server refuses it refuses again; what did not reach it may reach it soon.
      if (problem instanceof Refusal && problem.status >= 400 && problem.status < 500) return;
      await pause(retryMs, signal);
      retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
    }
  }
}

function append(buffer: LogBuffer, piece: Piece, isReading: boolean): void {
  const { writer, content, missing, isLate, offset, at } = piece;
  if (missing > 0) buffer.note(writer, `[${count(missing)} bytes are missing here]`);
  if (isLate) buffer.note(writer, `[what follows came late: it begins at byte ${offset}]`);
  buffer.append(writer, content, at, isReading);
  if (isLate) buffer.note(writer, "[so far what came late]");
}

/** Nothing is read for a tab that nobody sees; what was written meanwhile comes when it is seen. */
function inSight(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    function look() {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    }
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
