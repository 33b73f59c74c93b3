/** Let the graph of a job that failed, or was killed in vain, go on. */
import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import type { Job } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm, useIsDoing } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { Read } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";

/** Without a key it is a dry run. */
async function resumeJob(
  job: Job,
  key: string | null,
): Promise<components["schemas"]["ResumeAnswer"]> {
  const path = { job_id: job.job_id };
  const body = { dry_run: key === null, idempotency_key: key };
  return unwrap(api.POST("/api/jobs/{job_id}:resume", { params: { path }, body }));
}

export function ResumeButton({ job }: { job: Job }) {
  const ask = useConfirm();
  const [, go] = useLocation();
  function askFirst() {
    const key = newRequestKey();
    ask({
      title: `Resume job ${job.job_id} and what waited for it?`,
      body: <ResumePlan job={job} />,
      action: "Resume",
      run: async () => {
        const { jobs } = await resumeJob(job, key);
        const own = jobs.find((made) => made.replay_of === job.job_id) ?? jobs[0];
        if (own) go(`/jobs/${own.job_id}`);
        return `${plural(jobs.length, "new job")}: ${jobs.map((made) => made.job_id).join(", ")}.`;
      },
    });
  }
  return (
    <Button needs="submit" onClick={askFirst}>
      Resume
    </Button>
  );
}

function ResumePlan({ job }: { job: Job }) {
  const query = useQuery({
    queryKey: ["resume", job.job_id],
    queryFn: () => resumeJob(job, null),
    gcTime: 0,
    enabled: !useIsDoing(),
  });
  return (
    <Read query={query} what="what would run again">
      {({ jobs }) => (
        <>
          <p>
            {plural(jobs.length, "new job")} for what failed and for what was killed because of
            that. What has succeeded stays, and its results are used.
          </p>
          <ul>
            {jobs.slice(0, SHOWN_MAX).map((each) => (
              <li key={each.replay_of}>
                {plural(each.num_tasks, "task")} of job {each.replay_of} {each.name}
              </li>
            ))}
            {jobs.length > SHOWN_MAX && <li>and {plural(jobs.length - SHOWN_MAX, "other")}</li>}
          </ul>
        </>
      )}
    </Read>
  );
}

const SHOWN_MAX = 12;
