import { expect, test } from "vitest";
import { bytes, count, duration, isFinal, relative, stateName, localTimes } from "./format";

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1000, "1.0 s"],
  [9_999, "9.9 s"],
  [59_999, "59 s"],
  [60_000, "1 min"],
  [185_000, "3 min 5 s"],
  [7_800_000, "2 h 10 min"],
  [273_600_000, "3 d 4 h"],
  [-5, "0 ms"],
])("%i ms is %s", (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test.each([
  [0, "just now"],
  [-30_000, "30 s ago"],
  [30_000, "in 30 s"],
  [-185_000, "3 min ago"],
  [-90_000_000, "1 d ago"],
])("%i ms away is %s", (away, text) => {
  expect(relative(1_000_000_000 + away, 1_000_000_000)).toBe(text);
});

test("states lose their prefix", () => {
  expect(stateName("TASK_STATE_WORKER_FAILED")).toBe("worker_failed");
  expect(isFinal("JOB_STATE_DEAD_LETTERED")).toBe(true);
  expect(isFinal("JOB_STATE_RUNNING")).toBe(false);
});

test("large numbers are short", () => {
  expect([12_345, 123_456, 1_234_567, 123_456_789].map(count)).toEqual([
    "12,345",
    "123 k",
    "1.2 M",
    "123 M",
  ]);
  expect([512, 1536, 13_529_146_982].map(bytes)).toEqual(["512 B", "1.5 KiB", "12.6 GiB"]);
});

test("moments in a sentence are told in the reader's own time", () => {
  const nowMs = new Date(2026, 10, 18, 9, 30).getTime();
  const utc = (ms: number) => new Date(ms).toISOString().replace(".000Z", "Z");
  const soon = new Date(2026, 10, 18, 10, 5, 7).getTime();
  const later = new Date(2026, 10, 20, 1, 2, 3).getTime();
  expect(localTimes(`retry due at ${utc(soon)}, not before ${utc(later)}.`, nowMs)).toBe(
    "retry due at 10:05:07, not before 2026-11-20 01:02:03.",
  );
  expect(localTimes("queue 2026-01-02 is paused", nowMs)).toBe("queue 2026-01-02 is paused");
});
