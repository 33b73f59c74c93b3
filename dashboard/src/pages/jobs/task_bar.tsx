import type { Job } from "../../api/types";
import { count } from "../../parts/format";

/** The good end to the left, what went wrong next to it, what is still to do to the right. */
const FINISHED = [
  "succeeded",
  "failed",
  "dead_lettered",
  "unschedulable",
  "worker_failed",
  "killed",
] as const;
const OPEN = ["running", "building", "assigned"] as const;

/** How many tasks have finished, of how many; and how all of them stand, as a thin bar. */
export function TaskBar({ job }: { job: Job }) {
  const parts = [...FINISHED, ...OPEN].map((name) => [name, job[`tasks_${name}`]] as const);
  const finished = FINISHED.reduce((sum, name) => sum + job[`tasks_${name}`], 0);
  return (
    <div title={job.status_message} className="w-12 sm:w-16">
      {/* On a phone, large numbers stand below each other. */}
      <span className="block text-xs tabular-nums">
        {count(finished)}/<wbr />
        {count(job.num_tasks)}
      </span>
      <span aria-hidden="true" className="bg-line flex h-1 overflow-hidden rounded-full">
        {parts.map(
          ([name, tasks]) =>
            tasks > 0 && (
              <span
                key={name}
                className={`status-${name} min-w-0.5`}
                style={{ width: `${(100 * tasks) / job.num_tasks}%` }}
              />
            ),
        )}
      </span>
    </div>
  );
}
