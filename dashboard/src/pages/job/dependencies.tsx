/** The jobs around this one: what it waits for, what waits for it, what started it, what it started. */
import { Link } from "wouter";
import type { Job } from "../../api/types";
import { JobGraph } from "../../parts/graph";
import { plural } from "../../parts/format";
import { Panel, Read } from "../../parts/page";
import { Ago, Badge, Id, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { useChildren } from "./reads";

export function Dependencies({ job, hasGraph }: { job: Job; hasGraph: boolean }) {
  const children = useChildren(job);
  return (
    <div className="flex flex-col gap-4">
      {job.parent_job_id !== null && (
        <p>
          Submitted by a task of job{" "}
          <Id id={job.parent_job_id} to={`/jobs/${job.parent_job_id}`} what="job id" />
        </p>
      )}
      {hasGraph && (
        <Panel title="Graph">
          <JobGraph jobId={job.job_id} />
        </Panel>
      )}
      <Read query={children} what="child jobs">
        {({ jobs, next_page_token }) =>
          jobs.length > 0 && (
            <Panel
              flush
              title="Child jobs"
              aside={
                next_page_token != null && (
                  <Link href={`/jobs?parent=${job.job_id}`}>
                    The newest {plural(jobs.length, "child", "children")}; show all
                  </Link>
                )
              }
            >
              <Table
                label="Child jobs"
                rows={jobs}
                columns={COLUMNS}
                rowKey={(child) => child.job_id}
                empty={null}
              />
            </Panel>
          )
        }
      </Read>
    </div>
  );
}

const COLUMNS: Column<Job>[] = [
  {
    id: "job",
    title: "Job",
    cell: (child) => <Id id={child.job_id} to={`/jobs/${child.job_id}`} what="job id" />,
  },
  { id: "name", title: "Name", cell: (child) => <Said text={child.name} lengthMax={80} /> },
  { id: "state", title: "State", cell: (child) => <Badge state={child.state} /> },
  {
    id: "tasks",
    title: "Tasks",
    className: "hidden sm:table-cell",
    cell: (child) => <Said text={child.status_message.replace(/^Tasks: /, "")} />,
  },
  {
    id: "submitted",
    title: "Submitted",
    className: "hidden sm:table-cell",
    cell: (child) => <Ago ms={child.submitted_at_ms} />,
  },
];
