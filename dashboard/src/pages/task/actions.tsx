/** What can be done to a task; what would do nothing is not offered. */
import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { api, unwrap } from "../../api/client";
import type { Job, Task } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { isFinal } from "../../parts/format";
import { useKeys } from "../../parts/keyboard";
import { NO_REASON } from "../jobs/acting";
import { cancelling, deadLettering } from "./consequences";

export function Actions({ task, job }: { task: Task; job: Job }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const id = task.task_id;
  const params = { path: { task_id: id } };
  const readAgain = () => client.invalidateQueries({ queryKey: ["task", id] });

  async function cancel(mode: "soft" | "hard", reason: string) {
    const body = { mode, reason: reason || NO_REASON, idempotency_key: null };
    const told = await unwrap(api.POST("/api/tasks/{task_id}:cancel", { params, body }));
    await readAgain();
    return told.changed
      ? `Task ${id} is being cancelled.`
      : `Task ${id} had finished or was cancelled before.`;
  }
  async function deadLetter(reason: string) {
    const body = { reason: reason || NO_REASON, idempotency_key: null };
    await unwrap(api.POST("/api/tasks/{task_id}:dead-letter", { params, body }));
    await readAgain();
    return `Task ${id} is a dead letter.`;
  }
  if (isFinal(task.state)) return null;
  return (
    <>
      <Button
        needs="submit"
        onClick={() =>
          ask({
            title: `Cancel task ${id}?`,
            body: <Lines lines={cancelling(task, job, "soft")} />,
            action: "Cancel the task",
            danger: true,
            reasonFor: "kept with the task",
            run: (reason) => cancel("soft", reason),
          })
        }
      >
        Cancel
      </Button>
      <Button
        needs="submit"
        look="danger"
        onClick={() =>
          ask({
            title: `Cancel task ${id} hard?`,
            body: <Lines lines={cancelling(task, job, "hard")} />,
            action: "Cancel it hard",
            danger: true,
            reasonFor: "kept with the task",
            run: (reason) => cancel("hard", reason),
          })
        }
      >
        Cancel hard
      </Button>
      <Button
        needs="submit"
        onClick={() =>
          ask({
            title: `Make task ${id} a dead letter?`,
            body: <Lines lines={deadLettering(task, job)} />,
            action: "Dead-letter it",
            danger: true,
            reasonFor: "kept with the task",
            run: deadLetter,
          })
        }
      >
        Dead-letter
      </Button>
    </>
  );
}

function Lines({ lines }: { lines: string[] }) {
  return lines.map((line) => <p key={line}>{line}</p>);
}

/** The tasks before and after, by the same tab; `[` and `]` do the same. */
export function Neighbours({ task, job }: { task: Task; job: Job }) {
  const [, go] = useLocation();
  const [params] = useSearchParams();
  const tab = params.get("tab");
  const at = (index: number) =>
    index < 0 || index >= job.num_tasks
      ? null
      : `/tasks/${job.job_id}.${index}${tab === null ? "" : `?tab=${encodeURIComponent(tab)}`}`;
  const [before, after] = [at(task.task_index - 1), at(task.task_index + 1)];
  useKeys({
    "[": () => before !== null && go(before),
    "]": () => after !== null && go(after),
  });
  if (job.num_tasks === 1) return null;
  return (
    <nav aria-label="Tasks of the job" className="flex gap-2">
      <Neighbour to={before} name="Previous task">
        <span aria-hidden="true">← </span>
        {task.task_index - 1}
      </Neighbour>
      <Neighbour to={after} name="Next task">
        {task.task_index + 1}
        <span aria-hidden="true"> →</span>
      </Neighbour>
    </nav>
  );
}

function Neighbour({
  to,
  name,
  children,
}: {
  to: string | null;
  name: string;
  children: ReactNode;
}) {
  if (to === null) return null;
  return (
    <Link
      href={to}
      title={name}
      className="border-line bg-panel text-ink hover:bg-hover rounded-md border px-3 py-1 font-medium whitespace-nowrap hover:no-underline"
    >
      <span className="sr-only">{name}, </span>
      {children}
    </Link>
  );
}
