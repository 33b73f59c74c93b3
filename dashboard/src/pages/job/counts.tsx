/** How many tasks of a job are in which state, in words and as a bar. */
import type { Job } from "../../api/types";
import { count } from "../../parts/format";

/** In the order in which a task goes through them, good ends before bad ones. */
export const TASK_STATES = [
  "succeeded",
  "running",
  "building",
  "assigned",
  "pending",
  "killed",
  "worker_failed",
  "failed",
  "unschedulable",
  "dead_lettered",
] as const;
export type TaskState = (typeof TASK_STATES)[number];

export function countOf(job: Job, state: TaskState): number {
  return job[`tasks_${state}`];
}

/** Tasks that have an attempt under way: they hold a worker. */
export function openTasks(job: Job): number {
  return job.tasks_assigned + job.tasks_building + job.tasks_running;
}

/** The states that any task is in, with how many. */
function stateCounts(job: Job): [state: TaskState, tasks: number][] {
  return TASK_STATES.map((state): [TaskState, number] => [state, countOf(job, state)]).filter(
    ([, tasks]) => tasks > 0,
  );
}

export function StateBar({ job }: { job: Job }) {
  const counts = stateCounts(job);
  const said = counts.map(([state, tasks]) => `${count(tasks)} ${state}`).join(", ");
  return (
    <div role="img" aria-label={said} className="bg-line flex h-2.5 gap-px overflow-hidden rounded">
      {counts.map(([state, tasks]) => (
        <div
          key={state}
          title={`${count(tasks)} ${state}`}
          className={`status-${state} min-w-1`}
          style={{ flexGrow: tasks, flexBasis: 0 }}
        />
      ))}
    </div>
  );
}

/** One button for each state that any task is in: the table shows those alone. */
export function StateChips({
  job,
  chosen,
  choose,
}: {
  job: Job;
  chosen: string;
  choose: (state: string) => void;
}) {
  const counts = stateCounts(job);
  const state = TASK_STATES.find((name) => name === chosen);
  // What was chosen stays to be seen when its last task has left it.
  if (state !== undefined && countOf(job, state) === 0) counts.push([state, 0]);
  return (
    <div role="group" aria-label="Tasks by state" className="flex flex-wrap gap-1.5">
      <Chip isChosen={chosen === ""} onClick={() => choose("")} tasks={job.num_tasks} name="all" />
      {counts.map(([name, tasks]) => (
        <Chip
          key={name}
          name={name}
          tasks={tasks}
          state={name}
          isChosen={chosen === name}
          onClick={() => choose(chosen === name ? "" : name)}
        />
      ))}
    </div>
  );
}

function Chip({
  name,
  tasks,
  state,
  isChosen,
  onClick,
}: {
  name: string;
  tasks: number;
  state?: TaskState;
  isChosen: boolean;
  onClick: () => void;
}) {
  return (
    <button
      type="button"
      aria-pressed={isChosen}
      onClick={onClick}
      className={`flex items-center gap-1.5 rounded-full border px-2.5 py-0.5 text-xs ${isChosen ? "border-accent bg-accent-soft text-ink font-semibold" : "border-line text-dim hover:bg-hover hover:text-ink"}`}
    >
      {state && <span aria-hidden="true" className={`status-${state} size-2 rounded-full`} />}
      {name} {count(tasks)}
    </button>
  );
}
