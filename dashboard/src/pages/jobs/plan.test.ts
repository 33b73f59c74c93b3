import { expect, test } from "vitest";
import type { Job } from "../../api/types";
import { canCancel, cancelWords, idList, replayWords, rerunWords } from "./plan";

function job(id: number, state: string, rest: Partial<Job> = {}): Job {
  const none = { tasks_running: 0, tasks_assigned: 0, tasks_building: 0, tasks_pending: 0 };
  return {
    ...none,
    job_id: String(id),
    state: `JOB_STATE_${state}`,
    cancel_mode: null,
    tasks_dead_lettered: 0,
    ...rest,
  } as Job;
}
const RUNNING = job(1, "RUNNING", { tasks_running: 2, tasks_assigned: 1, tasks_pending: 97 });
const ENDED = job(2, "SUCCEEDED");

test("a soft cancel names the tasks, their grace and what is skipped", () => {
  const words = cancelWords([RUNNING, ENDED], "soft", { graces: [30], children: 1 });
  expect(words).toEqual([
    "3 tasks (2 running, 1 about to start) get SIGTERM and 30 s to end.",
    "97 waiting tasks are killed.",
    "1 live child job is cancelled too, with all below.",
    "Skipped, since ended: 2.",
  ]);
});

test("a hard cancel gives no grace; a waiting job has nothing to stop", () => {
  const one = job(1, "RUNNING", { tasks_running: 1 });
  expect(cancelWords([one], "hard", { graces: [30], children: 0 })).toEqual([
    "1 running task is killed at once, without grace.",
  ]);
  expect(
    cancelWords([job(1, "PENDING", { tasks_pending: 1 })], "soft", { graces: [], children: null }),
  ).toEqual([
    "Nothing of it runs now.",
    "1 waiting task is killed.",
    "Live child jobs are cancelled too.",
  ]);
});

test.each([
  [[30, 5], "5 s up to 30 s, as the job has it,"],
  [null, "the grace of the job"],
  [[90], "1 min 30 s"],
])("graces %j are %s", (graces, said) => {
  expect(cancelWords([RUNNING], "soft", { graces, children: 0 })[0]).toContain(`${said} to end`);
});

test("hard goes beyond soft, and nothing beyond hard", () => {
  const soft = job(3, "RUNNING", { cancel_mode: "soft" });
  expect([canCancel(soft, "soft"), canCancel(soft, "hard")]).toEqual([false, true]);
  expect(canCancel(job(3, "RUNNING", { cancel_mode: "hard" }), "soft")).toBe(false);
  expect(cancelWords([soft, RUNNING], "soft", { graces: [30], children: 0 })).toContain(
    "Skipped, since cancelled before: 3.",
  );
});

test("to run again names the tasks and what is skipped", () => {
  expect(rerunWords([RUNNING, ENDED], { tasks: 30, refused: 0 })).toEqual([
    "1 new job with 30 tasks: everything runs from the start.",
    "Skipped, since live: 1.",
  ]);
  expect(rerunWords([ENDED], { tasks: 0, refused: 1 })).toEqual(["None of them can be run again."]);
  const dead = job(4, "DEAD_LETTERED", { tasks_dead_lettered: 3 });
  expect(replayWords([dead, ENDED], 1)).toEqual([
    "1 dead letter runs again, as a new job.",
    "Skipped, since without dead letters: 2.",
  ]);
  expect(replayWords([dead], 0)[0]).toContain("nothing to replay");
});

test("long lists of ids are cut", () => {
  const jobs = Array.from({ length: 10 }, (_, at) => job(at + 1, "RUNNING"));
  expect(idList(jobs)).toBe("1, 2, 3, 4, 5, 6, 7, 8 and 2 others");
  expect(idList(jobs.slice(0, 3))).toBe("1, 2 and 3");
});
