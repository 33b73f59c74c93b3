import { expect, test } from "vitest";
import {
  fromLocal,
  problemOf,
  readFilters,
  sinceWords,
  statesOf,
  toAddress,
  toggleState,
  toLocal,
  toQuery,
  withFilters,
  withoutFilters,
} from "./filters";

const NOW = Date.UTC(2026, 0, 15, 10, 30);

test("filters of an address are read back as they were written", () => {
  const filters = { state: "failed", label: "team=a b&c", since: "1h", name: "é%" };
  expect(readFilters(withFilters(new URLSearchParams(), filters))).toEqual(filters);
});

test("a changed filter begins at the newest page and leaves foreign parameters alone", () => {
  const after = withFilters(new URLSearchParams("page=abc&state=failed&x=1&type="), { state: "" });
  expect(after.toString()).toBe("x=1&type=");
  expect(readFilters(after)).toEqual({});
  expect(withoutFilters(new URLSearchParams("queue=a&since=1h&page=abc&x=1")).toString()).toBe(
    "x=1",
  );
});

test("a relative time stays relative until it is asked", () => {
  const filters = readFilters(new URLSearchParams("since=15m&state=dead_lettered&queue=a"));
  const query = { state: "DEAD_LETTERED", queue: "a" };
  expect(toQuery(filters, NOW)).toEqual({ ...query, submitted_from_ms: NOW - 900_000 });
  expect(toQuery(filters, NOW + 5)).toEqual({ ...query, submitted_from_ms: NOW - 899_995 });
  expect(toQuery({ since: "999999d" }, NOW)).toEqual({ submitted_from_ms: 0 });
});

test("two moments mean the same in every time zone", () => {
  const address = toAddress(NOW);
  expect(address).toBe("2026-01-15T10:30Z");
  expect(fromLocal(toLocal(address))).toBe(address);
  expect(toQuery({ from: address, until: address }, 0)).toEqual({
    submitted_from_ms: NOW,
    submitted_until_ms: NOW,
  });
  expect([toLocal("nonsense"), fromLocal("")]).toEqual(["", ""]);
});

test.each([
  [{ since: "soon" }, "since"],
  [{ since: "h" }, "since"],
  [{ until: "tomorrow" }, "until"],
])("%j is told to be wrong", (filters, field) => {
  expect(problemOf(filters)).toMatchObject({ field, message: expect.stringContaining(field) });
});

test("what the server can judge is left to it", () => {
  expect(problemOf({ label: "x", state: "y", since: "3h", from: "2026-01-15T10:30Z" })).toBeNull();
  expect(sinceWords("3h")).toBe("last 3 h");
});

test("states are chosen together, and unsuccessful stands for all that it holds", () => {
  expect(statesOf({})).toEqual([]);
  expect(statesOf({ state: "failed,killed" })).toEqual(["failed", "killed"]);
  expect(toggleState([], "failed")).toBe("failed");
  expect(toggleState(["failed"], "killed")).toBe("failed,killed");
  expect(toggleState(["failed", "killed"], "failed")).toBe("killed");
  expect(toggleState(["running", "failed", "killed"], "unsuccessful")).toBe("running,unsuccessful");
  expect(toggleState(["running", "unsuccessful"], "killed")).toBe("running,killed");
  expect(toggleState(["unsuccessful"], "running")).toBe("unsuccessful,running");
  expect(toggleState(["unsuccessful"], "unsuccessful")).toBe("");
});
