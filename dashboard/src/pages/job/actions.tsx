/** What can be done to a job; what would do nothing is not offered. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { api, unwrap } from "../../api/client";
import type { Job } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { isFinal, plural } from "../../parts/format";
import { Read } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";
import { consequencesOf } from "./consequences";
import { openTasks } from "./counts";
import { useChildren } from "./reads";

export function Actions({ job }: { job: Job }) {
  const isEnded = isFinal(job.state);
  const isStopping = job.cancel_mode !== null;
  return (
    <>
      {!isEnded && !isStopping && <CancelButton job={job} mode="soft" />}
      {!isEnded && job.cancel_mode !== "hard" && <CancelButton job={job} mode="hard" />}
      {/* A job that undoes another is never run twice. */}
      {isEnded && job.compensates_job_id === null && <RerunButtons job={job} />}
    </>
  );
}

function CancelButton({ job, mode }: { job: Job; mode: "soft" | "hard" }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const children = useChildren(job.job_id);
  const isHard = mode === "hard";
  async function cancel() {
    const told = await unwrap(
      api.POST("/api/jobs/{job_id}:cancel", {
        params: { path: { job_id: job.job_id } },
        body: { mode, reason: "cancelled in the dashboard", idempotency_key: null },
      }),
    );
    await client.invalidateQueries({ queryKey: ["job", job.job_id] });
    return told.changed
      ? `Job ${job.job_id} is being cancelled.`
      : `Job ${job.job_id} had ended or was cancelled before.`;
  }
  const live = children.data?.jobs.filter((child) => !isFinal(child.state)).length ?? 0;
  const consequences = consequencesOf(job, mode, {
    live,
    isMore: children.data?.next_page_token != null,
  });
  return (
    <Button
      look={isHard ? "danger" : "plain"}
      onClick={() =>
        ask({
          title: isHard ? `Cancel job ${job.job_id} hard?` : `Cancel job ${job.job_id}?`,
          body: (
            <ul className="list-disc pl-5">
              {consequences.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          ),
          action: isHard ? "Cancel the job hard" : "Cancel the job",
          danger: true,
          run: cancel,
        })
      }
    >
      {isHard ? "Cancel hard" : "Cancel"}
    </Button>
  );
}

function RerunButtons({ job }: { job: Job }) {
  const isInputs = job.spec != null && job.spec["replicas"] == null;
  const isPartial =
    isInputs &&
    job.tasks_succeeded > 0 &&
    job.tasks_succeeded < job.num_tasks &&
    openTasks(job) + job.tasks_pending === 0;
  return (
    <>
      {isPartial && <RerunButton job={job} onlyUnsuccessful />}
      <RerunButton job={job} onlyUnsuccessful={false} />
    </>
  );
}

function RerunButton({ job, onlyUnsuccessful }: { job: Job; onlyUnsuccessful: boolean }) {
  const ask = useConfirm();
  const [, go] = useLocation();
  const name = onlyUnsuccessful ? "Run again what did not succeed" : "Run again";
  function askFirst() {
    // One question, one job: a second try after a lost answer finds what the first has made.
    const key = newRequestKey();
    ask({
      title: `Run job ${job.job_id} again?`,
      body: <RerunPlan job={job} onlyUnsuccessful={onlyUnsuccessful} />,
      action: "Submit it again",
      run: async () => {
        const made = await send(job.job_id, onlyUnsuccessful, { idempotency_key: key });
        go(`/jobs/${made.job_id}`);
        return `Job ${made.job_id} runs ${plural(made.num_tasks, "task")} of job ${job.job_id} again.`;
      },
    });
  }
  return <Button onClick={askFirst}>{name}</Button>;
}

/** What a dry run says: the server knows best what it would do. */
function RerunPlan({ job, onlyUnsuccessful }: { job: Job; onlyUnsuccessful: boolean }) {
  const query = useQuery({
    queryKey: ["rerun", job.job_id, onlyUnsuccessful],
    queryFn: () => send(job.job_id, onlyUnsuccessful, { dry_run: true }),
    gcTime: 0,
  });
  return (
    <Read query={query} what="what would run">
      {(plan) => (
        <p>
          A new job with {plural(plan.num_tasks, "task")} is submitted
          {onlyUnsuccessful
            ? ", one for each input that did not succeed. "
            : job.tasks_succeeded > 0
              ? `, also for the ${plural(job.tasks_succeeded, "one")} that succeeded. `
              : ". "}
          Job {job.job_id} stays as it is.
        </p>
      )}
    </Read>
  );
}

function send(
  jobId: string,
  onlyUnsuccessful: boolean,
  how: { dry_run?: boolean; idempotency_key?: string },
) {
  return unwrap(
    api.POST("/api/jobs/{job_id}:rerun", {
      params: { path: { job_id: jobId } },
      body: { only_unsuccessful: onlyUnsuccessful, ...how },
    }),
  );
}
