/** Read logs from the server piece by piece: of one attempt, or of all tasks of a job. */
import { api, unwrap } from "../../api/client";
import { fromBase64, type Writer } from "./buffer";
import { Order, type Part } from "./order";

export type LogSource =
  { kind: "attempt"; taskId: string; attempt: number } | { kind: "job"; id: string };

export type Piece = Part & { writer: Writer };
/** `isEnd`: there is no more at present. `isComplete`: there never will be. */
export type Step = { pieces: Piece[]; isEnd: boolean; isComplete: boolean };

const WAIT_MS = 10_000;
/** What came early waits so long for what is before it. */
const PATIENCE_MS = 10_000;

/** A function that reads on where it was; `follow` lets the server wait until there is more. */
export type ReadOn = (options: { follow: boolean; signal?: AbortSignal }) => Promise<Step>;

export function reader(source: LogSource, patienceMs = PATIENCE_MS): ReadOn {
  return source.kind === "job"
    ? jobReader(source.id, patienceMs)
    : attemptReader(source, patienceMs);
}

function attemptReader(writer: Writer, patienceMs: number): ReadOn {
  const { taskId, attempt } = writer;
  let offset = 0;
  let gapSeenAt: number | null = null;
  return async ({ follow, signal }) => {
    const query = { attempt, offset, follow, wait_ms: WAIT_MS };
    const params = { path: { task_id: taskId }, query };
    const chunk = await unwrap(api.GET("/api/tasks/{task_id}/logs", { params, signal }));
    const content = fromBase64(chunk.content);
    const { is_complete: isComplete } = chunk;
    const missing = content.length === 0 ? 0 : chunk.offset - offset;
    if (missing > 0 && !isComplete) {
      gapSeenAt ??= performance.now();
      if (performance.now() - gapSeenAt < patienceMs)
        return { pieces: [], isEnd: true, isComplete };
    }
    gapSeenAt = null;
    if (content.length === 0) return { pieces: [], isEnd: true, isComplete };
    offset = chunk.next_offset;
    const pieces = chunk.times.map((time, index): Piece => {
      const start = time.offset - chunk.offset;
      const end = (chunk.times[index + 1]?.offset ?? chunk.next_offset) - chunk.offset;
      const part = { offset: time.offset, content: content.subarray(start, end) };
      return {
        ...part,
        writer,
        at: time.stored_at_ms,
        missing: index ? 0 : missing,
        isLate: false,
      };
    });
    return { pieces, isEnd: false, isComplete };
  };
}

function jobReader(jobId: string, patienceMs: number): ReadOn {
  let token: string | undefined;
  const logs = new Map<string, { writer: Writer; order: Order }>();
  const waiting = new Set<{ writer: Writer; order: Order }>();
  return async ({ signal }) => {
    const params = { path: { job_id: jobId }, query: { page_token: token } };
    const page = await unwrap(api.GET("/api/jobs/{job_id}/logs", { params, signal }));
    token = page.next_page_token ?? token;
    const nowMs = performance.now();
    const pieces: Piece[] = [];
    const give = (writer: Writer, parts: Part[]) =>
      parts.forEach((part) => pieces.push({ ...part, writer }));
    for (const { task_id: taskId, attempt, offset, ...stretch } of page.stretches) {
      const key = `${taskId}.${attempt}`;
      const log = logs.get(key) ?? { writer: { taskId, attempt }, order: new Order(patienceMs) };
      logs.set(key, log);
      const content = fromBase64(stretch.content);
      give(log.writer, log.order.add({ offset, content, at: stretch.stored_at_ms }, nowMs));
      if (log.order.isWaiting) waiting.add(log);
    }
    for (const log of waiting) {
      give(log.writer, log.order.take(nowMs, page.is_complete));
      if (!log.order.isWaiting) waiting.delete(log);
    }
    return { pieces, isEnd: page.stretches.length === 0, isComplete: page.is_complete };
  };
}

const DOWNLOAD_BYTES_MAX = 64 << 20;
const STEPS_MAX = 100_000;

/** Read a log as it is now, and hand it to the browser as a file; tells if it was too long. */
export async function download(source: LogSource): Promise<string> {
  const readOn = reader(source, 0);
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
    const contents = pieces.sort((a, b) => a.offset - b.offset).map((piece) => piece.content);
    return isJob ? [`==> attempt ${name} <==\n`, ...contents, "\n"] : contents;
  });
  save(new Blob(parts), isJob ? `job-${source.id}.log` : `${source.taskId}.${source.attempt}.log`);
  return isWhole ? "" : `The file has the first ${DOWNLOAD_BYTES_MAX >> 20} MiB.`;
}

function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
