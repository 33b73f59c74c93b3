/** Follow a log for as long as it is looked at. */
import { useCallback, useEffect, useRef, useState } from "react";
import { Refusal } from "../../api/client";
import { readOlder } from "./attempt";
import { type Line, LogBuffer } from "./buffer";
import { gapText, type LogSource, type Piece, reader, readOlderOfJob, type Start } from "./read";

/** Between looks, once all has been read. The server waits for more of one attempt, but not of a job. */
const LOOK_AGAIN_MS = { job: 1000, attempt: 250 };
const RETRY_MS_MAX = 8000;
/** What comes is drawn this often, not more. */
const DRAW_MS = 150;
/** Lines before the end that are read first, and lines before one that is looked for. */
const TAIL_LINES = 2000;
const LINES_BEFORE = 200;
/** So many lines may stand before the last page of a job's log; nobody has counted them. */
const UNCOUNTED = 1_000_000_000;

export type Log = {
  lines: Line[];
  /** How many lines stand before these, and whether they can be read. */
  leftOut: number;
  hasOlder: boolean;
  isReadingOlder: boolean;
  /** How many lines stand before these is known, and with it their numbers. */
  isNumbered: boolean;
  isTrimmed: boolean;
  /** All that there was has been read once. */
  isRead: boolean;
  isComplete: boolean;
  error: Error | null;
};

const NOTHING: Log = {
  lines: [],
  leftOut: 0,
  hasOlder: false,
  isReadingOlder: false,
  isNumbered: true,
  isTrimmed: false,
  isRead: false,
  isComplete: false,
  error: null,
};

/**
 * The log from its end on, or from shortly before a line; a function to begin again, and one to
 * read what stands before. Lines that are being read are let go later.
 */
export function useLog(
  source: LogSource,
  isReading: boolean,
  line: number | null,
): [Log, again: () => void, readBack: () => void] {
  const [log, setLog] = useState(NOTHING);
  const [begun, setBegun] = useState(0);
  const reading = useRef(isReading);
  reading.current = isReading;
  const name = source.kind === "job" ? source.id : `${source.taskId}.${source.attempt}`;
  const latest = useRef({ source, line });
  latest.current = { source, line };
  const current = useRef<Reading | null>(null);

  useEffect(() => {
    const ending = new AbortController();
    setLog(NOTHING);
    current.current = new Reading(latest.current.source, {
      signal: ending.signal,
      isReading: () => reading.current,
      tell: setLog,
    });
    void current.current.read(latest.current.line);
    return () => ending.abort();
  }, [source.kind, name, begun]);
  const again = useCallback(() => setBegun((times) => times + 1), []);
  const readBack = useCallback(() => void current.current?.readBack(), []);
  return [log, again, readBack];
}

type Reader = { signal: AbortSignal; isReading: () => boolean; tell: (log: Log) => void };

class Reading {
  #buffer = new LogBuffer();
  #state = { isRead: false, isComplete: false, isReadingOlder: false, error: null as Error | null };
  /** Where the first line begins that is here; of a job, what leads back from it. */
  #offset = 0;
  #older: string | null = null;
  #isNumbered = true;
  #drawnAt = 0;

  constructor(
    readonly source: LogSource,
    readonly reader: Reader,
  ) {}

  async read(line: number | null): Promise<void> {
    const { signal, isReading } = this.reader;
    const { kind } = this.source;
    const start: Start =
      line === null ? { tail: TAIL_LINES } : { line: Math.max(1, line - LINES_BEFORE) };
    const readOn = reader(this.source, start);
    const state = this.#state;
    let retryMs = 500;
    while (!signal.aborted && !state.isComplete) {
      try {
        // That there is nothing yet, or that the server is back, is news: then it does not wait.
        const follow = state.isRead && state.error === null;
        const step = await readOn({ follow, signal });
        if (step.begins) {
          this.#offset = step.begins.offset;
          this.#buffer.startAt(step.begins.line);
        }
        if (step.older) {
          this.#older = step.older;
          this.#isNumbered = false;
          this.#buffer.startAt(UNCOUNTED);
        }
        for (const piece of step.pieces) append(this.#buffer, piece, isReading());
        Object.assign(state, { isComplete: step.isComplete, error: null });
        state.isRead ||= step.isEnd || step.isComplete;
        if (step.isComplete) this.#buffer.end();
        retryMs = 500;
        if (state.isRead || performance.now() - this.#drawnAt > DRAW_MS) this.#draw();
        if (state.isRead && !state.isComplete) {
          await pause(LOOK_AGAIN_MS[kind], signal);
          await inSight(signal);
        }
      } catch (problem) {
        if (!this.#fail(problem)) return;
        await pause(retryMs, signal);
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
      }
    }
  }

  /** Read what stands before the lines that are here. */
  async readBack(): Promise<void> {
    if (this.#state.isReadingOlder || !this.#hasOlder) return;
    this.#state.isReadingOlder = true;
    this.#draw();
    try {
      const older = new LogBuffer();
      const isAll = await this.#readOlder(older);
      this.#buffer.prepend(older, isAll);
    } catch (problem) {
      this.#fail(problem);
    } finally {
      this.#state.isReadingOlder = false;
    }
    if (!this.reader.signal.aborted) this.#draw();
  }

  /** Read the page before what is here; tells whether its lines can be counted from the first on. */
  async #readOlder(older: LogBuffer): Promise<boolean> {
    const { source } = this;
    const { signal } = this.reader;
    if (source.kind === "job") {
      const page = await readOlderOfJob(source.id, this.#older ?? "", signal);
      for (const piece of page.pieces) append(older, piece, true);
      this.#older = page.older;
      return false;
    }
    const { pieces, offset } = await readOlder(source, this.#offset, signal);
    for (const piece of pieces) append(older, piece, true);
    this.#offset = offset;
    return offset === 0;
  }

  get #hasOlder(): boolean {
    return (this.#offset > 0 || this.#older !== null) && this.#buffer.hasRoom;
  }

  /** Note a problem; false if it is no use to try again. */
  #fail(problem: unknown): boolean {
    if (this.reader.signal.aborted) return false;
    this.#state.error = problem instanceof Error ? problem : new Error(String(problem));
    this.#draw();
    // What the server refuses it refuses again; what did not reach it may reach it soon.
    return !(problem instanceof Refusal && problem.status >= 400 && problem.status < 500);
  }

  #draw(): void {
    this.#drawnAt = performance.now();
    const { leftOut, isTrimmed } = this.#buffer;
    this.reader.tell({
      ...this.#state,
      lines: this.#buffer.lines(),
      leftOut,
      isTrimmed,
      hasOlder: this.#hasOlder,
      isNumbered: this.#isNumbered,
    });
  }
}

function append(buffer: LogBuffer, piece: Piece, isReading: boolean): void {
  const { writer, content, missing, isLate, offset, at } = piece;
  if (missing > 0) buffer.note(writer, gapText(missing));
  if (isLate) buffer.note(writer, `[what follows came late: it begins at byte ${offset}]`);
  if (content.length > 0) buffer.append(writer, content, at, isReading);
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
