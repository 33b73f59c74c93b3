/** Read logs from the server piece by piece: of one attempt, or of all tasks of a job. */
import { api, unwrap } from "../../api/client";
import { fromBase64, type Writer } from "./buffer";

export type LogSource =
  { kind: "attempt"; taskId: string; attempt: number } | { kind: "job"; id: string };

export type Piece = {
  writer: Writer;
  content: Uint8Array<ArrayBuffer>;
  /** Bytes before this one that were never stored. */
  missing: number;
};
/** `isEnd`: there is no more at present. `isComplete`: there never will be. */
export type Step = { pieces: Piece[]; isEnd: boolean; isComplete: boolean };

const WAIT_MS = 10_000;

/** A function that reads on where it was; `follow` lets the server wait until there is more. */
export type ReadOn = (options: { follow: boolean; signal?: AbortSignal }) => Promise<Step>;

export function reader(source: LogSource): ReadOn {
  return source.kind === "job" ? jobReader(source.id) : attemptReader(source);
}

function attemptReader(writer: Writer): ReadOn {
  const { taskId, attempt } = writer;
  let offset = 0;
  return async ({ follow, signal }) => {
    const query = { attempt, offset, follow, wait_ms: WAIT_MS };
    const params = { path: { task_id: taskId }, query };
    const chunk = await unwrap(api.GET("/api/tasks/{task_id}/logs", { params, signal }));
    const content = fromBase64(chunk.content);
    const missing = content.length === 0 ? 0 : chunk.offset - offset;
    if (content.length > 0) offset = chunk.next_offset;
    const pieces = content.length === 0 ? [] : [{ writer, content, missing }];
    return { pieces, isEnd: content.length === 0, isComplete: chunk.is_complete };
  };
}

function jobReader(jobId: string): ReadOn {
  let token: string | undefined;
  const writers = new Map<string, Writer & { offset: number }>();
  return async ({ signal }) => {
    const params = { path: { job_id: jobId }, query: { page_token: token } };
    const page = await unwrap(api.GET("/api/jobs/{job_id}/logs", { params, signal }));
    token = page.next_page_token ?? token;
    const pieces: Piece[] = [];
    for (const { task_id: taskId, attempt, offset, content: encoded } of page.stretches) {
      const key = `${taskId}.${attempt}`;
      const writer = writers.get(key) ?? { taskId, attempt, offset: 0 };
      writers.set(key, writer);
      // What was stored twice, after an answer that got lost, is shown once.
      const content = fromBase64(encoded).subarray(Math.max(0, writer.offset - offset));
      if (content.length === 0) continue;
      const missing = Math.max(0, offset - writer.offset);
      writer.offset = Math.max(writer.offset, offset) + content.length;
      pieces.push({ writer, content, missing });
    }
    return { pieces, isEnd: page.stretches.length === 0, isComplete: page.is_complete };
  };
}

const DOWNLOAD_BYTES_MAX = 64 << 20;
const STEPS_MAX = 100_000;

/** Read a log as it is now, and hand it to the browser as a file; tells if it was too long. */
export async function download(source: LogSource): Promise<string> {
  const readOn = reader(source);
  const logs = new Map<string, { name: string; parts: Uint8Array<ArrayBuffer>[] }>();
  let size = 0;
  let isWhole = false;
  for (let steps = 0; steps < STEPS_MAX && size < DOWNLOAD_BYTES_MAX && !isWhole; steps += 1) {
    const { pieces, isEnd, isComplete } = await readOn({ follow: false });
    for (const { writer, content } of pieces) {
      const name = `${writer.taskId}.${writer.attempt}`;
      const log = logs.get(name) ?? { name, parts: [] };
      logs.set(name, log);
      log.parts.push(content);
      size += content.length;
    }
    isWhole = isComplete || isEnd;
  }
  const isJob = source.kind === "job";
  const parts = [...logs.values()].flatMap((log) =>
    isJob ? [`==> attempt ${log.name} <==\n`, ...log.parts, "\n"] : log.parts,
  );
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
