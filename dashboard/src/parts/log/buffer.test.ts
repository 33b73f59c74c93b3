import { expect, test } from "vitest";
import { countLevels, fromBase64, LogBuffer } from "./buffer";
import { levelOf } from "./levels";

const writer = { taskId: "1.0", attempt: 0 };
const other = { taskId: "1.1", attempt: 0 };
const encode = (text: string) => new TextEncoder().encode(text);
const texts = (buffer: LogBuffer) => buffer.lines().map((line) => line.text);

test("however the bytes are cut, the lines are the same", () => {
  const whole = encode("Grüße 😀\r\nzwei\n\n10%\r20%\r\n\u001b[31mrot\u001b[0m\nende ohne zeile");
  const lines = ["Grüße 😀", "zwei", "", "10%", "20%", "rot", "ende ohne zeile"];
  for (let size = 1; size <= whole.length; size += 1) {
    const buffer = new LogBuffer();
    for (let at = 0; at < whole.length; at += size) {
      buffer.append(writer, whole.subarray(at, at + size));
    }
    expect(texts(buffer)).toEqual(lines);
    buffer.end();
    expect(texts(buffer)).toEqual(lines);
    expect(buffer.lines().map((line) => line.number)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  }
});

test("bytes that are no text do no harm", () => {
  const buffer = new LogBuffer();
  buffer.append(writer, fromBase64("/wBh4oCuYgo=")); // ff 00 a U+202E b newline
  buffer.append(writer, new Uint8Array([0xe2, 0x82])); // half a euro sign, and then the end
  buffer.end();
  expect(texts(buffer)).toEqual(["�‹00›a‹202E›b", "�"]);
});

test("a line has the time of its first byte", () => {
  const buffer = new LogBuffer();
  buffer.append(writer, encode("one\ntw"), 10);
  buffer.append(writer, encode("o\nthree\r"), 20);
  buffer.append(writer, encode("\nfour"), 30);
  buffer.note(other, "said in between");
  const times = () => buffer.lines().map((line) => [line.text, line.at]);
  const known = [
    ["one", 10],
    ["two", 10],
    ["three", 20],
    ["said in between", undefined],
    ["four", 30],
  ];
  expect(times()).toEqual(known);
  buffer.append(writer, encode("!"), 40);
  buffer.end();
  expect(times()).toEqual([...known.slice(0, 4), ["four!", 30]]);
});

test("lines of several attempts are not mixed", () => {
  const buffer = new LogBuffer();
  buffer.append(writer, encode("one "));
  buffer.append(other, encode("two "));
  buffer.append(writer, encode("and one\n"));
  buffer.append(other, encode("and two\n"));
  expect(buffer.lines().map((line) => [line.writer.taskId, line.text])).toEqual([
    ["1.0", "one and one"],
    ["1.1", "two and two"],
  ]);
});

test("the oldest lines are let go, later if somebody reads them", () => {
  const buffer = new LogBuffer();
  buffer.append(writer, encode("x\n".repeat(60_000)), undefined, true);
  expect([buffer.leftOut, buffer.lines().length]).toEqual([0, 60_000]);
  buffer.append(writer, encode("last\n"));
  expect([buffer.leftOut, buffer.lines().length]).toEqual([10_001, 50_000]);
  expect(buffer.lines()[0]?.number).toBe(10_002);
  expect(buffer.lines().at(-1)).toMatchObject({ number: 60_001, text: "last" });
});

test("what has no line ends, or very long lines, is bounded as well", () => {
  const buffer = new LogBuffer();
  for (let part = 0; part < 40; part += 1)
    buffer.append(writer, new Uint8Array(1_000_000).fill(120));
  const lines = buffer.lines();
  expect(Math.max(...lines.map((line) => line.text.length))).toBe(1_000_000);
  expect(lines.reduce((sum, line) => sum + line.text.length, 0)).toBeLessThanOrEqual(33_000_000);
  expect(buffer.leftOut).toBeGreaterThan(0);
});

test("levels are guessed from the words of loggers, not from sentences", () => {
  const expected = {
    "2026-01-15T10:30:00Z ERROR step 7": "error",
    "WARNING: low disk": "warn",
    "[info] started": "info",
    "error: no such file": "error",
    '{"ts":1,"msg":"x","level":"warn"}': "warn",
    '{"msg":"ERROR in the text alone"}': null,
    "time=1 level=debug msg=x": "debug",
    "Traceback (most recent call last):": "error",
    "holdfast.errors.ValidationError: no": "error",
    "CRITICAL:root:down": "error",
    "the error rate is 0": null,
    "NO-ERROR-HERE": null,
    "": null,
  };
  for (const [line, level] of Object.entries(expected))
    expect([line, levelOf(line)]).toEqual([line, level]);
});

test("what is set in has the level of the line above it", () => {
  const buffer = new LogBuffer();
  buffer.append(writer, encode("ERROR failed\n  File x\nplain\nINFO on\n"));
  expect(countLevels(buffer.lines())).toEqual({ error: 2, warn: 0, info: 1, debug: 0, other: 1 });
});

test("lines that stand before others are put before them, and numbered back from those", () => {
  const buffer = new LogBuffer();
  buffer.startAt(11);
  buffer.append(writer, encode("eleven\ntwelve\n"));
  const older = new LogBuffer();
  older.append(writer, encode("nine\nten\n"));
  older.end();
  buffer.prepend(older, false);
  const numbered = () => buffer.lines().map((line) => [line.number, line.text]);
  const known = [
    [9, "nine"],
    [10, "ten"],
    [11, "eleven"],
    [12, "twelve"],
  ];
  expect([numbered(), buffer.leftOut]).toEqual([known, 8]);
  buffer.append(writer, encode("thirteen\n"));
  expect(numbered()).toEqual([...known, [13, "thirteen"]]);
  // Whatever was counted before: the first of all is number 1.
  buffer.prepend(older, true);
  expect([buffer.lines()[0]?.number, buffer.leftOut]).toEqual([1, 0]);
});

test("a line that begins in older output and goes on in what is here is one line", () => {
  const buffer = new LogBuffer();
  const other = { taskId: "7.1", attempt: 0 };
  buffer.append(other, encode("whole\n"));
  buffer.append(writer, encode("d of it\nnext\n"));
  const older = new LogBuffer();
  older.append(writer, encode("first\nthe en"));
  buffer.prepend(older, true);
  expect(buffer.lines().map(({ text }) => text)).toEqual([
    "first",
    "whole",
    "the end of it",
    "next",
  ]);
});
