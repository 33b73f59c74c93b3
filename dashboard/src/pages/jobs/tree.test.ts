import { expect, test } from "vitest";
import type { Job } from "../../api/types";
import { type Children, growTree, holdBack, jobOf, reselect } from "./tree";

const job = (id: number) => ({ job_id: String(id) }) as Job;
const CHILDREN: Record<string, Children> = {
  "1": { jobs: [job(4), job(3)], areMore: false },
  "3": { jobs: [job(5)], areMore: true },
  "4": "reading",
};
const grow = (opened: string[]) =>
  growTree([job(4), job(1)], new Set(opened), (id) => CHILDREN[id] ?? new Error("away"));

test("child jobs stand below their parent, and theirs below them", () => {
  const rows = grow(["1", "3 below 1", "4"]);
  expect(rows.map((row) => [row.key, row.depth, row.isOpened])).toEqual([
    ["4", 0, true],
    ["1", 0, true],
    ["4 below 1", 1, false],
    ["3 below 1", 1, true],
    ["5 below 3 below 1", 2, false],
  ]);
  expect(rows.map((row) => jobOf(row.key))).toEqual(["4", "1", "4", "3", "5"]);
  expect(rows[0]?.children).toBe("reading");
});

test("a job that is shown twice is selected and left in both places", () => {
  const rows = grow(["1"]);
  const chosen = reselect(new Map(), rows, new Set(["4 below 1"]));
  expect([...chosen.keys()]).toEqual(["4"]);
  const left = reselect(chosen, rows, new Set(["4"]));
  expect([...left.keys()]).toEqual([]);
});

test("what is selected on another page stays selected", () => {
  const before = new Map([["99", job(99)]]);
  expect([...reselect(before, grow([]), new Set(["1"])).keys()]).toEqual(["99", "1"]);
});

test("jobs newer than what was read are held back, by number and not by letters", () => {
  const jobs = [job(101), job(100), job(99)];
  expect(holdBack(jobs, "99")).toEqual({ shown: [job(99)], held: 2 });
  expect(holdBack(jobs, null)).toEqual({ shown: jobs, held: 0 });
});
