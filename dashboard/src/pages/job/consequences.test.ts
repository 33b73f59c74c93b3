import { expect, test } from "vitest";
import type { Job } from "../../api/types";
import { consequencesOf } from "./consequences";

const NONE = { live: 0, isMore: false };

function jobWith(tasks: Partial<Job>): Job {
  const counts = { tasks_pending: 0, tasks_assigned: 0, tasks_building: 0, tasks_running: 0 };
  return { ...counts, spec: { grace: 45 }, ...tasks } as Job;
}

test("a soft cancel names what is killed, what is asked to end, and how long it has", () => {
  const job = jobWith({ tasks_pending: 1, tasks_assigned: 1, tasks_running: 2 });
  expect(consequencesOf(job, "soft", { live: 2, isMore: false })).toEqual([
    "1 pending task is KILLED at once.",
    "3 running tasks get SIGTERM and 45 s to end.",
    "2 child jobs are cancelled too, and theirs.",
  ]);
});

test("a hard cancel leaves no grace", () => {
  expect(consequencesOf(jobWith({ tasks_running: 1 }), "hard", NONE)).toEqual([
    "1 running task is KILLED at once, without any grace.",
  ]);
});
