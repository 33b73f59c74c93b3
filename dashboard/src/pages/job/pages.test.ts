import { expect, test } from "vitest";
import { pagesOf, placed } from "./pages";

test("the pages in sight are those that its rows lie on, and none after the last", () => {
  expect(pagesOf({ first: 0, last: 30 }, 100_000)).toEqual([0]);
  expect(pagesOf({ first: 95, last: 210 }, 100_000)).toEqual([0, 1, 2]);
  expect(pagesOf({ first: 99_960, last: 99_999 }, 100_000)).toEqual([999]);
  // The job of a page that was just left: what was in sight there may not exist here.
  expect(pagesOf({ first: 5000, last: 5040 }, 3)).toEqual([0]);
});

test("a page is put where its tasks are, the rest is yet to be read", () => {
  const rows = placed(250, [1, 2], [["a", "b"], undefined]);
  expect(rows.length).toBe(250);
  expect([rows[99], rows[100], rows[101], rows[102]]).toEqual([undefined, "a", "b", undefined]);
});
