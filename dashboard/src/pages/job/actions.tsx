/** What can be done to a job; what would do nothing is not offered. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation } from "wouter";
import type { Job } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm, useIsDoing } from "../../parts/confirm";
import { isFinal, plural, stateName } from "../../parts/format";
import { Read } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";
import { cancelJob, rerunJob } from "../jobs/acting";
import { CancelBody } from "../jobs/questions";
import { openTasks } from "./counts";
import { ResumeButton } from "./resume";

export function Actions({ job }: { job: Job }) {
  const isEnded = isFinal(job.state);
  const isSuccess = stateName(job.state) === "succeeded";
  const isStopping = job.cancel_mode !== null;
  return (
    <>
      {!isEnded && !isStopping && <CancelButton job={job} mode="soft" />}
      {!isEnded && job.cancel_mode !== "hard" && <CancelButton job={job} mode="hard" />}
      {isEnded && !isSuccess && job.compensates_job_id === null && <ResumeButton job={job} />}
      {/* A job that undoes another is never run twice. */}
      {isEnded && job.compensates_job_id === null && <RerunButtons job={job} />}
    </>
  );
}

function CancelButton({ job, mode }: { job: Job; mode: "soft" | "hard" }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const isHard = mode === "hard";
  async function cancel(reason: string) {
    const isChanged = await cancelJob(job, mode, reason);
    await client.invalidateQueries({ queryKey: ["job", job.job_id] });
    return isChanged
      ? `Job ${job.job_id} is being cancelled.`
      : `Job ${job.job_id} had ended or was cancelled before.`;
  }
  return (
    <Button
      needs="submit"
      look={isHard ? "danger" : "plain"}
      onClick={() =>
        ask({
          title: isHard ? `Cancel job ${job.job_id} hard?` : `Cancel job ${job.job_id}?`,
          body: <CancelBody jobs={[job]} mode={mode} />,
          action: isHard ? "Cancel the job hard" : "Cancel the job",
          danger: true,
          reasonFor: "kept with the job",
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
        const made = await rerunJob(job, key, onlyUnsuccessful);
        go(`/jobs/${made.job_id}`);
        return `Job ${made.job_id} runs ${plural(made.num_tasks, "task")} of job ${job.job_id} again.`;
      },
    });
  }
  return (
    <Button needs="submit" onClick={askFirst}>
      {name}
    </Button>
  );
}

/** What a dry run says: the server knows best what it would do. */
function RerunPlan({ job, onlyUnsuccessful }: { job: Job; onlyUnsuccessful: boolean }) {
  const query = useQuery({
    queryKey: ["rerun", job.job_id, onlyUnsuccessful],
    queryFn: () => rerunJob(job, null, onlyUnsuccessful),
    gcTime: 0,
    enabled: !useIsDoing(),
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
