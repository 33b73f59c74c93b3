/** What the page makes of a list of workers: who is meant, when it was heard, what it has. */
import type { Worker } from "../../api/types";
import { bytes } from "../../parts/format";

export type Wanted = {
  health: string;
  text: string;
  isLostShown: boolean;
  /** Named by the address: shown whatever else is asked for. */
  workerId: string;
};

export function isWanted(worker: Worker, { health, text, isLostShown, workerId }: Wanted): boolean {
  if (worker.worker_id === workerId) return true;
  if (health === "" ? worker.health === "lost" && !isLostShown : worker.health !== health) {
    return false;
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const told = wordsOf(worker);
  return words.every((word) => told.includes(word));
}

function wordsOf(worker: Worker): string {
  const attributes = Object.entries(worker.attributes).map(([name, value]) => `${name}=${value}`);
  const kind = [worker.placed ? "placed" : "claims", worker.draining ? "draining" : ""];
  return [worker.worker_id, worker.name, worker.host, ...worker.queues, ...attributes, ...kind]
    .join("\n")
    .toLowerCase();
}

/** When it was last heard: its own message, or its answer to a call. */
export function heardAt(worker: Worker): number | null {
  const heard = Math.max(worker.last_seen_at_ms ?? 0, worker.last_answer_at_ms ?? 0);
  return heard === 0 ? null : heard;
}

export type Failures = { failures: number; attempts: number; isBad: boolean };

/** How many of the attempts that ended there within the hour failed; what was stopped says nothing. */
export function failuresOf(worker: Worker): Failures {
  const ended = worker.ended_last_hour;
  const failures = ended.failed + ended.worker_failed;
  // The server judges; without a call that failed, what has failed there is why.
  const isBad = worker.health === "failing" && worker.consecutive_failures === 0;
  return { failures, attempts: failures + ended.succeeded, isBad };
}

export type Amount = { name: string; used: number; capacity: number; text: string };

/** What it has and how much of that is taken; what it has none of is left out. */
export function amountsOf({ resources }: Worker): Amount[] {
  if (resources === null) return [];
  const { used, capacity, gpu_model: model } = resources;
  const plain = (value: number) => String(Number(value.toFixed(2)));
  const all: [name: string, key: keyof typeof used, say: (value: number) => string][] = [
    ["cpu", "cpu", plain],
    ["memory", "memory", bytes],
    ["disk", "disk", bytes],
    [model === null ? "gpu" : `gpu ${model}`, "gpu", plain],
  ];
  return all
    .filter(([, key]) => capacity[key] > 0 || used[key] > 0)
    .map(([name, key, say]) => ({
      name,
      used: used[key],
      capacity: capacity[key],
      text: `${say(used[key])} of ${say(capacity[key])}`,
    }));
}
