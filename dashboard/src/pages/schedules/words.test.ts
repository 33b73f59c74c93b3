import { describe, expect, it } from "vitest";
import { catchUp, fromField, kindOf, overlap, timing, toField } from "./words";

describe("a schedule in words", () => {
  it("says when it fires", () => {
    expect(timing({ cron: "0 3 * * *", every: null, tz: "Europe/Berlin" })).toBe(
      "0 3 * * * Europe/Berlin",
    );
    expect(timing({ cron: null, every: 90, tz: "UTC" })).toBe("every 1 min 30 s");
  });

  it("says what becomes of late ones, and beside the last one", () => {
    const late = { catch_up_max: 10, late_max: 60 };
    expect(catchUp({ ...late, catch_up: "all" })).toBe("all, 10 at most");
    expect(catchUp({ ...late, catch_up: "skip" })).toContain("left out");
    expect(catchUp({ ...late, catch_up: "one" })).toContain("the last one");
    expect(overlap({ overlap: "queue" })).toBe("waits for the last job");
    expect(kindOf({ kind: "caught_up" })).toBe("caught up");
  });

  it("reads moments of fields in local time", () => {
    const at = new Date(2026, 2, 29, 3, 30).getTime();
    expect(toField(at)).toBe("2026-03-29T03:30");
    expect(fromField("2026-03-29T03:30")).toBe(at);
    expect(fromField("")).toBeNull();
    expect(fromField("soon")).toBeNull();
  });
});
