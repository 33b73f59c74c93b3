import { expect, test } from "vitest";
import type { Queue } from "../../api/types";
import { drainSeconds, drainWords, paceWords } from "./pace";

function queue(depth: number, finished_per_second: number, paused = false): Queue {
  return { queue: "emails", depth, finished_per_second, paused } as Queue;
}

test("a queue drains at the pace of the last minute, or does not", () => {
  expect(drainWords(queue(0, 0))).toBeNull();
  expect(drainWords(queue(5, 0))).toBe("does not drain");
  expect(drainWords(queue(5, 2, true))).toBe("paused");
  expect(drainWords(queue(5, 10))).toBe("under 1 s");
  expect(drainWords(queue(5, 1))).toBe("about 5 s");
  expect(drainWords(queue(1000, 2.5))).toBe("about 6 min 40 s");
  expect(drainSeconds(queue(5, 0))).toBe(Infinity);
});

test("what is slow is said by the minute", () => {
  expect([0, 0.05, 1, 12.56, 4321.2].map(paceWords)).toEqual([
    "0 / s",
    "3 / min",
    "1 / s",
    "12.6 / s",
    "4,320 / s",
  ]);
});
