/** Bytes of logs, as they come, made into lines that can be shown; the oldest are let go. */
import { inert } from "../text";
import { type Level, LEVELS, levelAfter } from "./levels";

const LINES_MAX = 50_000;
const CHARACTERS_MAX = 32_000_000;
/** A line without an end is cut into pieces of this length. */
const LINE_MAX = 1_000_000;
/** Attempts whose last line may be unfinished at a time. */
const OPEN_MAX = 500;

export type Writer = { taskId: string; attempt: number };
/** `at`: when its first byte was stored; none for what no attempt has written. */
export type Line = { number: number; text: string; level: Level; writer: Writer; at?: number };

/** One attempt's output so far: bytes of half a character, and characters of half a line. */
type Open = { writer: Writer; decoder: TextDecoder; rest: string; level: Level; at?: number };

export class LogBuffer {
  /** How many lines stand before the first one that is here. */
  leftOut = 0;
  /** Some that were here were let go. */
  isTrimmed = false;
  #lines: Line[] = [];
  #characters = 0;
  #open = new Map<string, Open>();

  /** Begin with a line that is not the first. */
  startAt(line: number): void {
    this.leftOut = line - 1;
  }

  /** Whether there is room for lines before those that are here. */
  get hasRoom(): boolean {
    return (
      !this.isTrimmed && this.#lines.length < LINES_MAX * 2 && this.#characters < CHARACTERS_MAX * 2
    );
  }

  /** Put lines before those that are here; `isAll` if none stands before them. */
  prepend(older: LogBuffer, isAll: boolean): void {
    this.#takeOver(older);
    older.end();
    const start = isAll ? 0 : Math.max(0, this.leftOut - older.#lines.length);
    this.#lines = [...older.#lines, ...this.#lines].map((line, index) => ({
      ...line,
      number: start + index + 1,
    }));
    this.#characters += older.#characters;
    this.leftOut = start;
  }

  /** Add what an attempt wrote; `leaveAlone` keeps lines for one who is reading them. */
  append(writer: Writer, content: Uint8Array, at?: number, leaveAlone = false): void {
    const open = this.#openOf(writer);
    if (open.rest === "") open.at = at;
    this.#take(open, open.decoder.decode(content, { stream: true }), false, at);
    this.#letGo(leaveAlone ? 2 : 1);
  }

  /** Say something in between that the attempt did not write. */
  note(writer: Writer, text: string): void {
    const open = this.#openOf(writer);
    this.#finish(open);
    this.#push({ ...open, level: "other", at: undefined }, text);
  }

  /** Nothing more comes: what is unfinished is a line, too. */
  end(): void {
    for (const open of this.#open.values()) this.#finish(open);
    this.#open.clear();
    this.#letGo(2);
  }

  /** The lines that are kept, the unfinished ones last. */
  lines(): Line[] {
    const all = [...this.#lines];
    let number = this.leftOut + all.length;
    for (const { rest, level, writer, at } of this.#open.values()) {
      const text = inert(rest.replace(/\r$/, ""));
      if (text === "") continue;
      number += 1;
      all.push({ number, text, level: levelAfter(text, level), writer, at });
    }
    return all;
  }

  /** A line that begins in older output and goes on in what is here is one line. */
  #takeOver(older: LogBuffer): void {
    for (const open of older.#open.values()) {
      if (open.rest === "") continue;
      const { taskId, attempt } = open.writer;
      const isOwn = ({ writer }: Line) => writer.taskId === taskId && writer.attempt === attempt;
      const place = this.#lines.findIndex(isOwn);
      const line = this.#lines[place];
      if (line === undefined) continue;
      const text = inert(open.rest) + line.text;
      this.#lines[place] = { ...line, text, level: levelAfter(text, open.level), at: open.at };
      this.#characters += open.rest.length;
      open.rest = "";
    }
  }

  #openOf(writer: Writer): Open {
    const key = `${writer.taskId}.${writer.attempt}`;
    const found = this.#open.get(key);
    if (found !== undefined) return found;
    const [oldest] = this.#open;
    if (oldest !== undefined && this.#open.size >= OPEN_MAX) {
      this.#finish(oldest[1]);
      this.#open.delete(oldest[0]);
    }
    // A mark of byte order is shown like all that cannot be seen.
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const open: Open = { writer, decoder, rest: "", level: "other" };
    this.#open.set(key, open);
    return open;
  }

  #take(open: Open, text: string, isLast: boolean, at = open.at): void {
    let all = open.rest + text;
    // Whether a return is the end of a line or one half of it, the next character tells.
    const held = !isLast && all.endsWith("\r") ? "\r" : "";
    if (held) all = all.slice(0, -1);
    const parts = all.split(/\r\n|[\r\n]/);
    let rest = parts.pop() ?? "";
    for (const part of parts) {
      this.#push(open, part);
      open.at = at;
    }
    while (rest.length > LINE_MAX) {
      this.#push(open, rest.slice(0, LINE_MAX));
      rest = rest.slice(LINE_MAX);
    }
    open.rest = rest + held;
  }

  #finish(open: Open): void {
    this.#take(open, open.decoder.decode(), true);
    if (open.rest !== "") this.#push(open, open.rest);
    open.rest = "";
  }

  #push(open: Open, raw: string): void {
    const text = inert(raw);
    open.level = levelAfter(text, open.level);
    const number = this.leftOut + this.#lines.length + 1;
    this.#lines.push({ number, text, level: open.level, writer: open.writer, at: open.at });
    this.#characters += text.length;
  }

  #letGo(times: number): void {
    let gone = Math.max(0, this.#lines.length - LINES_MAX * times);
    for (let at = 0; at < gone; at += 1) this.#characters -= this.#lines[at]?.text.length ?? 0;
    while (this.#characters > CHARACTERS_MAX * times && gone < this.#lines.length - 1) {
      this.#characters -= this.#lines[gone]?.text.length ?? 0;
      gone += 1;
    }
    if (gone === 0) return;
    this.#lines.splice(0, gone);
    this.leftOut += gone;
    this.isTrimmed = true;
  }
}

export function countLevels(lines: readonly Line[]): Record<Level, number> {
  const counts = Object.fromEntries(LEVELS.map((level) => [level, 0])) as Record<Level, number>;
  for (const { level } of lines) counts[level] += 1;
  return counts;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const content = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) content[at] = binary.charCodeAt(at);
  return content;
}
