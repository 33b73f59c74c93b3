/** What the pending tasks of a job wait for: also of one that has started, and waits again. */
import { Link } from "wouter";
import type { Job } from "../../api/types";
import { plural } from "../../parts/format";
import { Told } from "../../parts/show";
import { useScope } from "../../session/may";

export function Waiting({ job }: { job: Job }) {
  const isScoped = useScope() !== null;
  if (job.pending_reason == null) return null;
  const name =
    job.tasks_pending === 1 ? "1 task waits" : `${plural(job.tasks_pending, "task")} wait`;
  const [place, remedy] = remedyOf(job);
  return (
    <p>
      <Link href={`/jobs/${job.job_id}?tab=tasks&state=pending`} className="text-warn underline">
        {name}
      </Link>
      : <Told text={job.pending_reason} />
      {/* Those pages are about the jobs of everybody. */}
      {!isScoped && (
        <>
          {" "}
          (
          <Link href={place} className="underline">
            {remedy}
          </Link>
          )
        </>
      )}
    </p>
  );
}

/** Where to look for what stands in the way. */
function remedyOf(job: Job): [place: string, name: string] {
  if (job.unmet_dependencies > 0) return [`/jobs/${job.job_id}?tab=dependencies`, "these jobs"];
  if (job.queue === null) return ["/workers", "the workers"];
  return [`/queues?queue=${encodeURIComponent(job.queue)}`, "the queue"];
}
