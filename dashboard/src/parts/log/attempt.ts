/** Read the log of one attempt: its end first, then on, or back to what was written before. */
import { api, unwrap } from "../../api/client";
import { fromBase64, type Writer } from "./buffer";
import { HEAD_BYTES } from "./order";
import type { Piece, ReadOn, Start } from "./read";

const WAIT_MS = 10_000;
const OLDER_BYTES = 1 << 20;
const OLDER_CHUNKS_MAX = 20;

type Place = { offset: number } | Exclude<Start, null>;
type Chunk = { pieces: Piece[]; offset: number; end: number; leftOut: number; line: number | null };
type Read = Chunk & { isComplete: boolean };

async function readChunk(
  writer: Writer,
  place: Place,
  options: { follow?: boolean; bytes_max?: number; signal?: AbortSignal },
): Promise<Read> {
  const { signal, ...rest } = options;
  const query = { attempt: writer.attempt, ...place, ...rest, wait_ms: WAIT_MS };
  const params = { path: { task_id: writer.taskId }, query };
  const chunk = await unwrap(api.GET("/api/tasks/{task_id}/logs", { params, signal }));
  const content = fromBase64(chunk.content);
  const { times, offset, next_offset: end } = chunk;
  const pieces = times.map((time, index): Piece => {
    const until = times[index + 1]?.offset ?? end;
    const part = content.subarray(time.offset - offset, until - offset);
    const { offset: at, stored_at_ms: storedAt } = time;
    return { writer, offset: at, content: part, at: storedAt, missing: 0, isLate: false };
  });
  const { left_out: leftOut, line, is_complete: isComplete } = chunk;
  return { pieces, offset, end, leftOut, line, isComplete };
}

/** Reads on from where it was; it begins with a line, or where the log does. */
export function attemptReader(writer: Writer, patienceMs: number, start: Start): ReadOn {
  let offset: number | null = start === null ? 0 : null;
  let gapSeenAt: number | null = null;
  return async ({ follow, signal }) => {
    const place = offset === null ? start : null;
    const chunk = await readChunk(writer, place ?? { offset: offset ?? 0 }, { follow, signal });
    const { pieces, isComplete } = chunk;
    const [first] = pieces;
    const begins = place === null ? undefined : { line: chunk.line ?? 1, offset: chunk.offset };
    const missing = offset === null || first === undefined ? 0 : chunk.offset - offset;
    if (missing > 0 && chunk.leftOut === 0 && !isComplete) {
      gapSeenAt ??= performance.now();
      if (performance.now() - gapSeenAt < patienceMs)
        return { pieces: [], isEnd: true, isComplete };
    }
    gapSeenAt = null;
    offset = chunk.end;
    if (first !== undefined) first.missing = missing;
    return { pieces, isEnd: first === undefined, isComplete, begins };
  };
}

/** What stands before an offset at which a line begins, and where that begins; of it the last part. */
export async function readOlder(
  writer: Writer,
  until: number,
  signal: AbortSignal,
): Promise<{ pieces: Piece[]; offset: number }> {
  for (let from = until; from > 0;) {
    from = Math.max(0, from - OLDER_BYTES);
    const found = await readBetween(writer, from, until, signal);
    const pieces = from > 0 && !found.isAfterGap ? fromNextLine(found.pieces) : found.pieces;
    const [first] = pieces;
    if (first !== undefined) return { pieces, offset: from === 0 ? 0 : first.offset };
    // One long line goes on before it; or all of this is left out: then its head comes next.
    if (found.pieces.length === 0) from = Math.min(from, HEAD_BYTES);
  }
  return { pieces: [], offset: 0 };
}

async function readBetween(
  writer: Writer,
  from: number,
  until: number,
  signal: AbortSignal,
): Promise<{ pieces: Piece[]; isAfterGap: boolean }> {
  const pieces: Piece[] = [];
  let isAfterGap = false;
  let at = from;
  for (let chunks = 0; at < until && chunks < OLDER_CHUNKS_MAX; chunks += 1) {
    const bytesMax = Math.min(until - at, OLDER_BYTES);
    const chunk = await readChunk(writer, { offset: at }, { bytes_max: bytesMax, signal });
    const [first] = chunk.pieces;
    if (first === undefined || chunk.offset >= until) break;
    if (pieces.length > 0) first.missing = chunk.offset - at;
    else isAfterGap = chunk.offset > at;
    pieces.push(...chunk.pieces.filter((piece) => piece.offset < until));
    at = chunk.end;
  }
  const last = pieces.at(-1);
  if (last !== undefined) last.content = last.content.subarray(0, until - last.offset);
  // What is left out right before the lines that are there is said with what stands before it.
  if (last !== undefined && at < until)
    pieces.push({ ...last, offset: until, content: EMPTY, missing: until - at });
  return { pieces, isAfterGap };
}

const EMPTY = new Uint8Array(0);
const BREAKS = [10, 13];

/** Leave out the rest of a line that begins before these pieces. */
function fromNextLine(pieces: Piece[]): Piece[] {
  for (const [index, piece] of pieces.entries()) {
    const end = piece.content.findIndex((byte) => BREAKS.includes(byte));
    if (end === -1) continue;
    const isPair = piece.content[end] === 13 && piece.content[end + 1] === 10;
    const begin = end + (isPair ? 2 : 1);
    const rest = { ...piece, offset: piece.offset + begin, content: piece.content.subarray(begin) };
    const left = [rest, ...pieces.slice(index + 1)];
    return left.some(({ content }) => content.length > 0) ? left : [];
  }
  return [];
}
