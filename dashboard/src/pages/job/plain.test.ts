import { expect, test } from "vitest";
import { plainLines } from "./plain";

test("a placed gang reads as one would say it", () => {
  const lines = plainLines({
    entrypoint: { command: ["python", "train.py"] },
    replicas: 3,
    max_retries_failure: 0,
    max_retries_preemption: 100,
    lease: 60,
    timeout: 5400,
    on_timeout: "kill",
    resources: { gpu: 2, gpu_model: "H100", memory: "4GB" },
    constraints: [
      { attribute: "region", value: "eu" },
      { attribute: "rack", op: "in", value: ["r1", "r2"] },
    ],
    coscheduling: { group_by: "rack" },
    backoff: { base: 0.5, factor: 2, ceiling: 60 },
  });
  expect(Object.fromEntries(lines)).toEqual({
    Runs: "python train.py",
    Tasks: "3 replicas",
    Retries: "none after a failure, 100 after the loss of a worker",
    Backoff: "500 ms, 2 times as long each time, 1 min at most",
    "When retries are used up": "the task fails",
    Lease: "1 min",
    Timeout: "1 h 30 min for an attempt, then it is killed",
    Resources: "1 cpu, 4GB memory, 2 gpu H100",
    Constraints: "region = eu and rack in (r1, r2)",
    Gang: "all tasks start together, on workers with the same rack",
  });
});
