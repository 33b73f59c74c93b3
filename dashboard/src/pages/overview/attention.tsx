/** What somebody should look at, the worst first, each with the way to it. */
import { Fragment } from "react";
import { Link } from "wouter";
import type { Overview } from "../../api/types";
import { Mark } from "../../parts/mark";
import { Panel } from "../../parts/page";
import { Said } from "../../parts/show";

type Attention = Overview["attention"][number];

const JOBS_NAMED = 5;

const KINDS: Record<string, string> = {
  failing_jobs: "Failing jobs",
  failing_type: "Failing type",
  never_fits: "Work that can never run:",
  dead_letters: "Dead letters",
  queue_stalled: "Queue",
  worker_lost: "Worker",
  worker_failing: "Worker",
};

export function AttentionList({ attention }: { attention: Attention[] }) {
  return (
    <Panel title="Needs attention" flush>
      {attention.length === 0 ? (
        <p className="text-dim px-4 py-3">Nothing needs attention.</p>
      ) : (
        <ul>
          {attention.map((one) => (
            <li
              key={`${one.kind} ${one.subject}`}
              className="border-line hover:bg-hover flex flex-wrap items-baseline sm:flex-nowrap gap-x-3 gap-y-1 border-b px-4 py-2 last:border-b-0"
            >
              <span className="w-16 shrink-0">
                <Mark tone={one.severity === "critical" ? "bad" : "warn"}>{one.severity}</Mark>
              </span>
              <span className="min-w-0">
                <span className="text-dim">{KINDS[one.kind] ?? one.kind}</span>{" "}
                <Link href={placeOf(one)} className="font-medium">
                  <Said text={one.subject} lengthMax={120} />
                </Link>
                : <Said text={one.message} />
                <Jobs ids={one.job_ids ?? []} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** The jobs that it is about, where they are named. */
function Jobs({ ids }: { ids: string[] }) {
  if (ids.length === 0) return null;
  return (
    <span className="text-dim">
      {" "}
      ({ids.length === 1 ? "job " : "jobs "}
      {ids.slice(0, JOBS_NAMED).map((id, at) => (
        <Fragment key={id}>
          {at > 0 && ", "}
          <Link href={`/jobs/${id}`} className="underline">
            {id}
          </Link>
        </Fragment>
      ))}
      {ids.length > JOBS_NAMED && ", …"})
    </span>
  );
}

export function placeOf({ kind, subject, fingerprint, job_ids: ids }: Attention): string {
  const named = encodeURIComponent(subject);
  if (kind === "failing_jobs") return `/jobs?state=unsuccessful&fingerprint=${fingerprint}`;
  // Those that fail and are tried again have not ended.
  if (kind === "failing_type") return `/jobs?type=${named}&state=pending,running,unsuccessful`;
  if (kind === "never_fits") return `/jobs/${ids?.[0]}`;
  if (kind === "dead_letters") return `/dead-letters?reason=${named}`;
  if (kind === "queue_stalled") return `/queues?queue=${named}`;
  return `/workers?worker=${named}`;
}
