import { expect, test } from "vitest";
import { marks, share } from "./scale";

const HOUR = 3_600_000;

test("an axis has round marks, never too many, whatever the span", () => {
  for (const length of [1, 3, 999, 61_000, HOUR, 26 * HOUR, 400 * 24 * HOUR, 1e13]) {
    const span = { from: 1_794_777_203_192, until: 1_794_777_203_192 + length };
    const found = marks(span, 8);
    expect(found.length).toBeLessThanOrEqual(9);
    expect(found.every(({ at }) => at >= span.from && at <= span.until)).toBe(true);
  }
  const [first, second] = marks({ from: 500, until: 4200 }, 8);
  expect([first?.at, second?.at]).toEqual([500, 1000]);
});

test("what lies outside of the span is drawn at its edge", () => {
  const span = { from: 1000, until: 2000 };
  expect([500, 1250, 9000].map((ms) => share(span, ms))).toEqual([0, 0.25, 1]);
  expect(share({ from: 1000, until: 1000 }, 1000)).toBe(0);
});
