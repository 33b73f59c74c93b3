import { expect, test } from "vitest";
import type { Worker } from "../../api/types";
import { amountsOf, failuresOf, heardAt, isWanted } from "./fleet";

const worker = {
  worker_id: "builder-7f3a",
  name: "builder",
  host: "Rack-7",
  queues: ["emails"],
  health: "healthy",
  placed: true,
  draining: false,
  attributes: { region: "eu" },
  last_seen_at_ms: 1000,
  last_answer_at_ms: 2000,
  same_process: null,
  resources: {
    capacity: { cpu: 4, memory: 8 << 20, disk: 0, gpu: 2 },
    used: { cpu: 0.30000000000000004, memory: 1 << 20, disk: 0, gpu: 0 },
    free: { cpu: 3.7, memory: 7 << 20, disk: 0, gpu: 2 },
    gpu_model: "H100",
  },
} as unknown as Worker;
const any = { health: "", text: "", isLostShown: false, workerId: "" };

test("lost workers are folded away unless they are asked for", () => {
  const lost = { ...worker, health: "lost" };
  expect(isWanted(worker, any)).toBe(true);
  expect(isWanted(lost, any)).toBe(false);
  expect(isWanted(lost, { ...any, isLostShown: true })).toBe(true);
  expect(isWanted(lost, { ...any, health: "lost" })).toBe(true);
  expect(isWanted(lost, { ...any, health: "silent", workerId: "builder-7f3a" })).toBe(true);
  expect(isWanted(worker, { ...any, health: "silent" })).toBe(false);
});

test("every word must be found somewhere", () => {
  expect(isWanted(worker, { ...any, text: "rack EU" })).toBe(true);
  expect(isWanted(worker, { ...any, text: "region=eu mails placed" })).toBe(true);
  expect(isWanted(worker, { ...any, text: "rack us" })).toBe(false);
});

test("failures are marked where the server judges by them that a worker is failing", () => {
  const ended_last_hour = { succeeded: 1, failed: 5, worker_failed: 2, killed: 20 };
  const told = (health: string, consecutive_failures = 0) =>
    failuresOf({ ...worker, health, consecutive_failures, ended_last_hour });
  expect(told("failing")).toEqual({ failures: 7, attempts: 8, isBad: true });
  expect(told("healthy").isBad).toBe(false);
  expect(told("failing", 1).isBad).toBe(false);
});

test("amounts say what is used of what", () => {
  expect(amountsOf(worker).map(({ name, text }) => `${name} ${text}`)).toEqual([
    "cpu 0.3 of 4",
    "memory 1.0 MiB of 8.0 MiB",
    "gpu H100 0 of 2",
  ]);
  expect(amountsOf({ ...worker, resources: null })).toEqual([]);
  expect(heardAt(worker)).toBe(2000);
  expect(heardAt({ ...worker, last_seen_at_ms: null, last_answer_at_ms: null })).toBeNull();
});
