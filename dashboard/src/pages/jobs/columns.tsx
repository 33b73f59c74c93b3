/** The columns of the list; no worker among them, a job has none. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Job } from "../../api/types";
import { Ago, Badge, Id, Nothing, Said, Took } from "../../parts/show";
import type { Column } from "../../parts/table";
import { inert, shorten } from "../../parts/text";
import { TaskBar } from "./task_bar";
import type { TreeRow } from "./tree";

const NAME_MAX = 60;
const ERROR_MAX = 200;
const DEPTH_SHOWN_MAX = 6;

export function jobColumns(onUnfold: (row: TreeRow) => void): Column<TreeRow>[] {
  return [
    {
      id: "job",
      title: "Job",
      className: "max-sm:px-1",
      cell: (row) => (
        <span
          className="flex items-center gap-1"
          style={{ paddingLeft: `${Math.min(row.depth, DEPTH_SHOWN_MAX) * 0.75}rem` }}
        >
          <Opener row={row} onUnfold={onUnfold} />
          <span className="max-sm:[&_button]:hidden">
            <Id id={row.job.job_id} to={`/jobs/${row.job.job_id}`} what="job id" />
          </span>
        </span>
      ),
    },
    {
      id: "name",
      title: "Name",
      className: "max-sm:px-1 w-1/2 max-w-0 min-w-20 sm:min-w-36",
      cell: (row) => <Name row={row} />,
    },
    {
      id: "state",
      title: "State",
      className: "max-sm:px-1",
      cell: ({ job }) => (
        <>
          <Badge state={job.state} />
          {job.cancel_mode !== null && job.finished_at_ms === null && (
            <span className="text-dim block text-xs whitespace-nowrap">being cancelled</span>
          )}
        </>
      ),
    },
    {
      id: "tasks",
      title: "Tasks",
      className: "max-sm:px-1 max-sm:pr-3",
      cell: ({ job }) => <TaskBar job={job} />,
    },
    {
      id: "queue",
      title: "Queue",
      className: "hidden lg:table-cell max-w-32",
      cell: ({ job }) =>
        job.queue === null ? <span className="text-dim">placed</span> : <Cut text={job.queue} />,
    },
    {
      id: "owner",
      title: "Owner",
      className: "hidden xl:table-cell max-w-32",
      cell: ({ job }) => <Cut text={job.owner} />,
    },
    {
      id: "submitted",
      title: "Submitted",
      className: "hidden sm:table-cell md:hidden lg:table-cell min-w-26 tabular-nums",
      cell: ({ job }) => <Ago ms={job.submitted_at_ms} />,
    },
    {
      id: "took",
      title: "Took",
      // As wide as it gets: what runs would move the other columns each second.
      className: "hidden lg:table-cell min-w-26 tabular-nums",
      cell: ({ job }) => <Took from={job.started_at_ms} to={job.finished_at_ms} />,
    },
    {
      id: "error",
      title: "Error",
      className: "hidden xl:table-cell w-1/2 max-w-0 min-w-32",
      cell: ({ job }) =>
        job.error === null ? <Nothing /> : <Cut text={firstLine(job.error)} whole={job.error} />,
    },
  ];
}

function firstLine(text: string): string {
  return text.trimStart().split("\n", 1)[0] ?? "";
}

/** One line of somebody else's text, cut by the width of its column; the rest on hover. */
function Cut({ text, whole = text }: { text: string; whole?: string }) {
  return (
    <bdi className="block truncate" title={shorten(inert(whole), 2000)}>
      {shorten(inert(text), ERROR_MAX)}
    </bdi>
  );
}

function Opener({ row, onUnfold }: { row: TreeRow; onUnfold: (row: TreeRow) => void }) {
  return (
    <button
      type="button"
      aria-label={`Child jobs of ${row.job.job_id}`}
      title="Child jobs"
      aria-expanded={row.isOpened}
      onClick={() => onUnfold(row)}
      className="text-dim hover:text-ink w-4 shrink-0"
    >
      <span aria-hidden="true">{row.isOpened ? "▾" : "▸"}</span>
    </button>
  );
}

function Name({ row: { job, depth, children } }: { row: TreeRow }) {
  return (
    <div className="min-w-0">
      <Link href={`/jobs/${job.job_id}`} className="text-ink">
        <Said text={job.name} lengthMax={NAME_MAX} />
      </Link>
      {job.type !== job.name && (
        <span className="text-dim text-xs">
          {" "}
          <Said text={job.type} lengthMax={NAME_MAX} />
        </span>
      )}
      <Origin job={job} isBelowParent={depth > 0} />
      {children !== null && <ChildNote jobId={job.job_id}>{children}</ChildNote>}
    </div>
  );
}

/** Which other job this one came from. */
function Origin({ job, isBelowParent }: { job: Job; isBelowParent: boolean }) {
  const origins: [string, string | null][] = [
    ["child of", isBelowParent ? null : job.parent_job_id],
    ["replay of", job.replay_of],
    ["undoes", job.compensates_job_id],
  ];
  return origins.map(
    ([word, id]) =>
      id !== null && (
        <span key={word} className="text-dim block text-xs">
          {word}{" "}
          <Link href={`/jobs/${id}`} className="underline">
            {id}
          </Link>
        </span>
      ),
  );
}

function ChildNote({
  jobId,
  children,
}: {
  jobId: string;
  children: NonNullable<TreeRow["children"]>;
}) {
  if (children === "reading") return <Note>Reading child jobs …</Note>;
  if (children instanceof Error) return <Note>Child jobs: {inert(children.message)}</Note>;
  if (children.jobs.length === 0) return <Note>No child jobs</Note>;
  if (!children.areMore) return null;
  return (
    <Note>
      The newest {children.jobs.length} child jobs;{" "}
      <Link href={`/jobs?parent=${jobId}`} className="underline">
        all of them
      </Link>
    </Note>
  );
}

function Note({ children }: { children: ReactNode }) {
  return (
    <span role="status" className="text-dim block text-xs">
      {children}
    </span>
  );
}
