import { describe, expect, it } from "vitest";
import { allows, appliesTo, readTyped, typedOf } from "./words";

const RATE = { kind: "bucket", most: 1500, period: 60, burst: 20 };
const PLAIN = { only_for: null, in_queue: null, in_type: null };

describe("a limit in words", () => {
  it("says how much, and in which time", () => {
    expect(allows({ kind: "concurrency", most: 5, period: null, burst: null })).toBe("5 at once");
    expect(allows(RATE)).toBe("1,500 per minute, bursts of 20");
    expect(allows({ ...RATE, kind: "window", period: 7200, burst: null })).toBe(
      "1,500 per 2 hours, in any such time",
    );
    expect(allows({ ...RATE, period: 0.5, burst: null })).toBe("1,500 per 0.5 seconds");
  });

  it("says for what", () => {
    expect(appliesTo({ ...PLAIN, scope: "owner" })).toBe("each owner");
    expect(appliesTo({ ...PLAIN, scope: "key", only_for: "eu", in_queue: "mail" })).toBe(
      "the key eu alone, in queue mail",
    );
    expect(appliesTo({ ...PLAIN, scope: "name", only_for: "x" })).toBe("code that asks for it");
  });
});

describe("what was typed of a limit", () => {
  const typed = { ...typedOf(null), name: "mail", most: "5" };

  it("is read for its kind", () => {
    const { body, problems } = readTyped({ ...typed, period: "x", burst: "y", inQueue: " q " });
    expect(problems).toEqual({});
    expect(body).toMatchObject({ most: 5, period: null, burst: null, in_queue: "q" });
    expect(readTyped({ ...typed, kind: "bucket", most: "0.5", burst: "" }).body).toMatchObject({
      most: 0.5,
      period: 1,
      burst: null,
    });
  });

  it("is told at its field what is wrong", () => {
    expect(Object.keys(readTyped({ ...typed, name: " ", most: "1.5" }).problems)).toEqual([
      "name",
      "most",
    ]);
    const rate = { ...typed, kind: "bucket" as const, most: "", period: "0", burst: "-1" };
    expect(Object.keys(readTyped(rate).problems)).toEqual(["most", "period", "burst"]);
    expect(readTyped({ ...typed, most: "-1" }).problems.most).toContain("whole number");
  });
});
