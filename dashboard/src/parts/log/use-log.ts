/** Follow a log for as long as it is looked at. */
import { useEffect, useRef, useState } from "react";
import { Refusal } from "../../api/client";
import { count } from "../format";
import { type Line, LogBuffer } from "./buffer";
import { type LogSource, reader } from "./read";

/** The server waits for more of one attempt; for a job one looks again. */
const LOOK_AGAIN_MS = 1000;
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
      // The first look does not wait: that there is nothing is news, too.
      const step = await readOn({ follow: state.isRead, signal });
      for (const { writer, content, missing } of step.pieces) {
        if (missing > 0) buffer.note(writer, `[${count(missing)} bytes are missing here]`);
        buffer.append(writer, content, isReading());
      }
      Object.assign(state, { isComplete: step.isComplete, error: null });
      state.isRead ||= step.isEnd || step.isComplete;
      if (step.isComplete) buffer.end();
      retryMs = 500;
      if (step.isEnd || step.isComplete || performance.now() - drawnAt > DRAW_MS) draw();
      if (step.isEnd && source.kind === "job") await pause(LOOK_AGAIN_MS, signal);
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
