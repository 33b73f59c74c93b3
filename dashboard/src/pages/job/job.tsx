/** One job: how it stands, its tasks, and what can be done about it. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Refusal } from "../../api/client";
import type { Job } from "../../api/types";
import { EventList } from "../../parts/events";
import { LogView } from "../../parts/logs";
import { Empty, Failure, Loading, Page } from "../../parts/page";
import { useParam } from "../../parts/params";
import { Id, Said } from "../../parts/show";
import { Tabs } from "../../parts/tabs";
import { Needs } from "../../session/limits";
import { useScope } from "../../session/may";
import { Actions } from "./actions";
import { Dependencies } from "./dependencies";
import { Head } from "./head";
import { useChildren, useGraph, useJob } from "./reads";
import { Spec } from "./spec";
import { Tasks } from "./tasks";
import { Timeline } from "./timeline";

const MISSING = "It may have been pruned, the id is wrong, or it is not for you.";

export function JobPage({ jobId }: { jobId: string }) {
  const query = useJob(jobId);
  const job = query.data;
  if (job !== undefined) return <Shown job={job} error={query.error} retry={query.refetch} />;
  const title = `Job ${jobId}`;
  const isMissing = query.error instanceof Refusal && query.error.status === 404;
  return (
    <Page title={title} heading={<Said text={title} lengthMax={80} />}>
      {query.error === null && <Loading what="the job" />}
      {query.error !== null && (
        <>
          <Failure error={query.error} retry={() => void query.refetch()} />
          <Empty title={isMissing ? MISSING : "Nothing was read."}>
            <Link href="/jobs">Go to the list of jobs</Link>
          </Empty>
        </>
      )}
    </Page>
  );
}

function Shown({ job, error, retry }: { job: Job; error: Error | null; retry: () => unknown }) {
  const heading = (
    <span className="flex flex-wrap items-baseline gap-x-3">
      <span className="min-w-0">
        Job: <Said text={job.name} lengthMax={200} />
      </span>
      <span className="text-dim text-sm font-normal">
        <Id id={job.job_id} what="job id" />
      </span>
    </span>
  );
  return (
    <Page title={`Job: ${job.name}`} heading={heading} actions={<Actions job={job} />}>
      {error && <Failure error={error} retry={() => void retry()} />}
      <Head job={job} />
      <Views job={job} />
    </Page>
  );
}

function Views({ job }: { job: Job }) {
  const [chosen] = useParam("tab");
  // A graph may lead to jobs of others.
  const isScoped = useScope() !== null;
  const graph = useGraph(job.job_id, !isScoped);
  const children = useChildren(job);
  const hasGraph = (graph.data?.nodes.length ?? 0) > 1;
  const hasChildren = (children.data?.jobs.length ?? 0) > 0;
  const source = { kind: "job" as const, id: job.job_id };
  const tabs: [string, ReactNode, () => ReactNode][] = [
    ["tasks", "Tasks", () => <Tasks job={job} />],
    ["timeline", "Timeline", () => <Timeline job={job} />],
  ];
  // Whoever comes by a link to it does not see another tab first.
  const isRead = (isScoped || !graph.isPending) && !children.isPending;
  const isAwaited = chosen === "dependencies" && !isRead;
  if (isAwaited || hasGraph || hasChildren || job.parent_job_id !== null) {
    const view = () => <Dependencies job={job} hasGraph={hasGraph} />;
    tabs.push(["dependencies", "Dependencies", view]);
  }
  tabs.push(
    ["events", "Events", () => <EventList source={source} />],
    ["logs", "Logs", () => withData("Logs are", <LogView source={source} />)],
    ["spec", "Spec", () => withData("The spec is", <Spec job={job} />)],
  );
  return <Tabs tabs={tabs} />;
}

function withData(what: string, children: ReactNode) {
  return (
    <Needs role="data" what={what}>
      {children}
    </Needs>
  );
}
