import { expect, test } from "vitest";
import type { Overview } from "../../api/types";
import { atLeast, lonely, newest, number, paceOf, perSecond, within } from "./series";

function seen(step_seconds: number, at_ms: number[], now_ms: number): Overview {
  return { step_seconds, now_ms, series: { at_ms } } as Overview;
}

test("the step under way counts by the time that has passed, once enough of it has", () => {
  const minutes = [0, 60_000, 120_000];
  expect(perSecond([60, null, 30], seen(60, minutes, 150_000))).toEqual([1, null, 1]);
  expect(perSecond([60, null, 5], seen(60, minutes, 125_000))).toEqual([1, null, null]);
});

test("the pace is the shortest time in which something happens", () => {
  expect(paceOf([0.2, 3, null]).name).toBe("second");
  expect(paceOf([0.2], [null, 0.1]).name).toBe("minute");
  expect(paceOf([0.001]).name).toBe("hour");
  expect(paceOf([null], []).name).toBe("minute");
});

test("gaps are gaps", () => {
  expect(newest([1, 2, null])).toBe(2);
  expect(newest([null])).toBeNull();
  expect(lonely([1, null, 2, 3, null, 0])).toEqual([0, 5]);
});

test("numbers say what matters of them", () => {
  expect([0, 0.0432, 1.25, 12.56, 99.6, 1204.4].map(number)).toEqual([
    "0",
    "0.043",
    "1.25",
    "12.6",
    "99.6",
    "1,204",
  ]);
});

test("an axis by multiples has no zero, and not too many marks", () => {
  expect(atLeast([0, null, 0.5, 7], 1)).toEqual([1, null, 1, 7]);
  const decades = Array.from({ length: 12 }, (_, power) => 10 ** power);
  expect(within(decades, 1, 5000)).toEqual([1, 10, 100, 1000]);
  expect(within(decades, 1, 1e9)).toEqual([1, 100, 1e4, 1e6, 1e8]);
});
