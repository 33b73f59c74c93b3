/** Read logs from the server piece by piece: of one attempt, or of all tasks of a job. */
import { api, unwrap } from "../../api/client";
import { attemptReader } from "./attempt";
import { fromBase64, type Writer } from "./buffer";
import { Order, type Part } from "./order";

export type LogSource =
  { kind: "attempt"; taskId: string; attempt: number } | { kind: "job"; id: string };

export type Piece = Part & { writer: Writer };
/** Where to begin: so many lines before the end, with a line, or where the log does. */
export type Start = { tail: number } | { line: number } | null;
/**
 * `isEnd`: there is no more at present. `isComplete`: there never will be. `begins`: the first line
 * of all, and its offset, if that is not where the log begins. `older`: what leads back, of a job.
 */
export type Step = {
  pieces: Piece[];
  isEnd: boolean;
  isComplete: boolean;
  begins?: { line: number; offset: number };
  older?: string | null;
};

/** What came early waits so long for what is before it. */
const PATIENCE_MS = 10_000;
const PAGE_SIZE = 1000;

/** A function that reads on where it was; `follow` lets the server wait until there is more. */
export type ReadOn = (options: { follow: boolean; signal?: AbortSignal }) => Promise<Step>;

export function reader(source: LogSource, start: Start, patienceMs = PATIENCE_MS): ReadOn {
  return source.kind === "job"
    ? jobReader(source.id, patienceMs, start !== null && "tail" in start)
    : attemptReader(source, patienceMs, start);
}

/** Reads on from where it was; it begins with the last page, or where the log does. */
function jobReader(jobId: string, patienceMs: number, fromEnd: boolean): ReadOn {
  let token: string | undefined;
  const logs = new Map<string, { writer: Writer; order: Order }>();
  const waiting = new Set<{ writer: Writer; order: Order }>();
  return async ({ signal }) => {
    const isTail = fromEnd && token === undefined;
    const place = isTail ? { tail: true } : { page_token: token };
    const params = { path: { job_id: jobId }, query: { ...place, page_size: PAGE_SIZE } };
    const page = await unwrap(api.GET("/api/jobs/{job_id}/logs", { params, signal }));
    token = page.next_page_token ?? token;
    const nowMs = performance.now();
    const pieces: Piece[] = [];
    const give = (writer: Writer, parts: Part[]) =>
      parts.forEach((part) => pieces.push({ ...part, writer }));
    for (const { task_id: taskId, attempt, offset, ...stretch } of page.stretches) {
      const key = `${taskId}.${attempt}`;
      // What an attempt wrote before the last page is read when it is asked for.
      const begins = fromEnd ? offset : 0;
      const log = logs.get(key) ?? {
        writer: { taskId, attempt },
        order: new Order(patienceMs, begins),
      };
      logs.set(key, log);
      const content = fromBase64(stretch.content);
      give(log.writer, log.order.add({ offset, content, at: stretch.stored_at_ms }, nowMs));
      if (log.order.isWaiting) waiting.add(log);
    }
    for (const log of waiting) {
      give(log.writer, log.order.take(nowMs, page.is_complete));
      if (!log.order.isWaiting) waiting.delete(log);
    }
    const older = isTail ? page.older_page_token : undefined;
    return {
      pieces,
      isEnd: isTail || page.stretches.length === 0,
      isComplete: page.is_complete,
      older,
    };
  };
}

/** The output of a job before that which has been read, and what leads further back. */
export async function readOlderOfJob(
  jobId: string,
  token: string,
  signal: AbortSignal,
): Promise<{ pieces: Piece[]; older: string | null }> {
  const query = { older_page_token: token, page_size: PAGE_SIZE };
  const params = { path: { job_id: jobId }, query };
  const page = await unwrap(api.GET("/api/jobs/{job_id}/logs", { params, signal }));
  const pieces = page.stretches.map(({ task_id: taskId, attempt, offset, ...stretch }): Piece => {
    const content = fromBase64(stretch.content);
    const writer = { taskId, attempt };
    return { writer, offset, content, at: stretch.stored_at_ms, missing: 0, isLate: false };
  });
  return { pieces, older: page.older_page_token };
}

const DOWNLOAD_BYTES_MAX = 64 << 20;
const STEPS_MAX = 100_000;

/** Read a log as it is now, and hand it to the browser as a file; tells if it was too long. */
export async function download(source: LogSource): Promise<string> {
  const readOn = reader(source, null, 0);
  const logs = new Map<string, { name: string; pieces: Piece[] }>();
  let size = 0;
  let isWhole = false;
  for (let steps = 0; steps < STEPS_MAX && size < DOWNLOAD_BYTES_MAX && !isWhole; steps += 1) {
    const { pieces, isEnd, isComplete } = await readOn({ follow: false });
    for (const piece of pieces) {
      const name = `${piece.writer.taskId}.${piece.writer.attempt}`;
      const log = logs.get(name) ?? { name, pieces: [] };
      logs.set(name, log);
      log.pieces.push(piece);
      size += piece.content.length;
    }
    isWhole = isComplete || isEnd;
  }
  const isJob = source.kind === "job";
  const parts = [...logs.values()].flatMap(({ name, pieces }) => {
    const contents = pieces
      .sort((a, b) => a.offset - b.offset)
      .flatMap(({ content, missing }) => (missing > 0 ? [gapLine(missing), content] : [content]));
    return isJob ? [`==> attempt ${name} <==\n`, ...contents, "\n"] : contents;
  });
  save(new Blob(parts), isJob ? `job-${source.id}.log` : `${source.taskId}.${source.attempt}.log`);
  return isWhole ? "" : `The file has the first ${DOWNLOAD_BYTES_MAX >> 20} MiB.`;
}

/** What stands in the place of bytes that are not kept. */
export function gapText(missing: number): string {
  return `[${missing} bytes of output are left out here]`;
}

function gapLine(missing: number): string {
  return `\n${gapText(missing)}\n`;
}

function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
