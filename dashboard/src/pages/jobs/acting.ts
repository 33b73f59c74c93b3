/** Do something to many jobs, a few at a time, and tell what became of each. */
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import type { Job } from "../../api/types";
import type { Mode } from "./plan";

const AT_ONCE = 4;

type Schemas = components["schemas"];
export type Outcome<Done> = { job: Job } & ({ done: Done } | { error: Error });
export type Refused = { job: Job; error: Error };

export async function actOnEach<Done>(
  jobs: readonly Job[],
  act: (job: Job) => Promise<Done>,
): Promise<Outcome<Done>[]> {
  const outcomes: Outcome<Done>[] = [];
  const left = jobs.map((job, at) => [at, job] as const);
  async function work() {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [at, job] = next;
      try {
        outcomes[at] = { job, done: await act(job) };
      } catch (problem) {
        const error = problem instanceof Error ? problem : new Error(String(problem));
        outcomes[at] = { job, error };
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcomes;
}

export function refusedOf(outcomes: Outcome<unknown>[]): Refused[] {
  return outcomes.filter((outcome) => "error" in outcome);
}

export function doneOf<Done>(outcomes: Outcome<Done>[]): Done[] {
  return outcomes.flatMap((outcome) => ("done" in outcome ? [outcome.done] : []));
}

/** What is kept where nobody says why. */
export const NO_REASON = "no reason given";

export async function cancelJob(job: Job, mode: Mode, reason: string): Promise<boolean> {
  const path = { job_id: job.job_id };
  const body = { mode, reason: reason || NO_REASON };
  return (await unwrap(api.POST("/api/jobs/{job_id}:cancel", { params: { path }, body }))).changed;
}

/** Without a key it is a dry run. */
export async function rerunJob(
  job: Job,
  key: string | null,
  only_unsuccessful = false,
): Promise<Schemas["RerunAnswer"]> {
  const path = { job_id: job.job_id };
  const idempotency_key = key === null ? null : `${key}-${job.job_id}`;
  const body = { dry_run: key === null, idempotency_key, only_unsuccessful };
  return unwrap(api.POST("/api/jobs/{job_id}:rerun", { params: { path }, body }));
}

/** Without a key it is a dry run. What waited for the job in vain goes on with the replay. */
export async function replayLetters(
  job: Job,
  key: string | null,
): Promise<Schemas["ReplayAnswer"]> {
  const filter = { job_id: job.job_id };
  const idempotency_key = key === null ? null : `${key}-${job.job_id}`;
  const body = { filter, dry_run: key === null, idempotency_key, resume: true };
  return unwrap(api.POST("/api/dead-letters:replay", { body }));
}
