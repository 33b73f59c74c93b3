/** What will happen to a task, said before it is done; by how it stood when it was last read. */
import type { Job, Task } from "../../api/types";
import { duration, stateName } from "../../parts/format";
import { inert } from "../../parts/text";

const GRACE_SECONDS = 30;

export function cancelling(task: Task, job: Job, mode: "soft" | "hard"): string[] {
  const [who, isOpen] = describe(task);
  if (!isOpen) return [`${who} It is KILLED at once and never tried again.`];
  const grace = duration(Number(job.spec?.["grace"] ?? GRACE_SECONDS) * 1000);
  return mode === "soft"
    ? [`${who} It gets SIGTERM and ${grace} to end; then it is KILLED.`, "It is not tried again."]
    : [`${who} It is KILLED at once, without any grace.`, "It is not tried again."];
}

export function deadLettering(task: Task, job: Job): string[] {
  const [who, isOpen] = describe(task);
  return [
    isOpen ? `${who} Its attempt is KILLED at once.` : who,
    "The task becomes a dead letter with the reason policy_violation; it can be replayed later.",
    ...(job.is_gang ? ["It is one of a gang: the others do not go on without it."] : []),
  ];
}

function describe(task: Task): [words: string, isOpen: boolean] {
  const state = stateName(task.state);
  if (state === "pending") return [`Task ${task.task_id} waits.`, false];
  const where = task.worker_id == null ? "" : ` on ${inert(task.worker_id)}`;
  return [`Task ${task.task_id} is ${state} as attempt ${task.current_attempt_id}${where}.`, true];
}
