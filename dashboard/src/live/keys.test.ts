import { expect, test } from "vitest";
import { isAbout, restMs } from "./keys";

test("news of a job concerns its page, its tasks and all lists of jobs", () => {
  const news = new Set(["12"]);
  const about = (...key: unknown[]) => isAbout(key, news);
  expect(about("job", "12", "tasks")).toBe(true);
  expect(about("task", "12.3", "events")).toBe(true);
  expect(about("jobs", {})).toBe(true);
  expect(about("letters", "summary")).toBe(true);
  expect(about("job", "1")).toBe(false);
  expect(about("task", "1.12")).toBe(false);
  expect(about("workers")).toBe(false);
});

test("news of any job concerns what is about jobs, and nothing that is read by its own clock", () => {
  const about = (...key: unknown[]) => isAbout(key, "any");
  expect(about("jobs", {})).toBe(true);
  expect(about("job", "12")).toBe(true);
  expect(about("task", "12.3", "events")).toBe(true);
  for (const kind of ["totals", "functions", "session", "workers"]) {
    expect(about(kind, "12")).toBe(false);
  }
});

test("only dead letters are left in peace for a while", () => {
  expect(restMs(["letters", "list"])).toBeGreaterThan(restMs(["jobs", {}]));
});
