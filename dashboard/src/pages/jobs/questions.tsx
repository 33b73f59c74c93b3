/** What stands in the confirmations, here and on the page of a job: read from the server while one decides. */
import { type UseQueryResult, useQueries } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Job } from "../../api/types";
import { useIsDoing } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { Badge, Said } from "../../parts/show";
import { inert } from "../../parts/text";
import { replayLetters, rerunJob } from "./acting";
import {
  canCancel,
  cancelWords,
  hasDeadLetters,
  isLive,
  type Mode,
  replayWords,
  rerunWords,
} from "./plan";

const SHOWN_MAX = 8;
/** Of more than these the question is general. */
const READ_MAX = 50;
const CHILDREN_MAX = 1000;

export function CancelBody({ jobs, mode }: { jobs: Job[]; mode: Mode }) {
  const targets = jobs.filter((job) => canCancel(job, mode));
  const reads = useReads(targets, "cancel", async ({ job_id }) => {
    const [job, children] = await Promise.all([
      unwrap(api.GET("/api/jobs/{job_id}", { params: { path: { job_id } } })),
      unwrap(
        api.GET("/api/jobs", { params: { query: { parent: job_id, page_size: CHILDREN_MAX } } }),
      ),
    ]);
    return { job, children };
  });
  const told = reads.flatMap(({ data }) => (data === undefined ? [] : [data]));
  const areAll = told.length === targets.length;
  // What has changed since the list was read is told as it is now.
  const fresh = new Map(told.map(({ job }) => [job.job_id, job]));
  const known = (job: Job) => fresh.get(job.job_id) ?? job;
  const stopped = targets.map(known);
  const areChildrenAll = areAll && told.every(({ children }) => !children.next_page_token);
  const words = cancelWords(jobs.map(known), mode, {
    graces: stopped.every((job) => job.spec != null) ? stopped.flatMap(graceOf) : null,
    children: areChildrenAll
      ? told.reduce((sum, { children }) => sum + children.jobs.filter(isLive).length, 0)
      : null,
  });
  return (
    <>
      <JobNames jobs={targets} />
      <Sentences words={words} />
    </>
  );
}

function graceOf(job: Job): number[] {
  const grace = job.spec?.["grace"];
  const runs = job.tasks_running + job.tasks_assigned + job.tasks_building > 0;
  return runs && typeof grace === "number" ? [grace] : [];
}

export function RerunBody({ jobs }: { jobs: Job[] }) {
  const targets = jobs.filter((job) => !isLive(job));
  const reads = useReads(targets, "rerun", (job) => rerunJob(job, null));
  return (
    <>
      <JobNames jobs={targets} />
      <Sentences
        words={rerunWords(jobs, {
          tasks: total(targets, reads, (plan) => plan.num_tasks),
          refused: reads.filter((read) => read.isError).length,
        })}
      />
      <Objections jobs={targets} reads={reads} />
    </>
  );
}

export function ReplayBody({ jobs }: { jobs: Job[] }) {
  const targets = jobs.filter(hasDeadLetters);
  const reads = useReads(targets, "replay", (job) => replayLetters(job, null));
  const tasks = total(targets, reads, ({ replays }) =>
    replays.reduce((sum, replay) => sum + replay.task_ids.length, 0),
  );
  const inVain = total(targets, reads, (answer) => answer.killed_in_vain) ?? 0;
  return (
    <>
      <JobNames jobs={targets} />
      <Sentences words={replayWords(jobs, tasks)} />
      {inVain > 0 && (
        <p>What waited goes on with them: {plural(inVain, "job")} killed because these failed.</p>
      )}
      <Objections jobs={targets} reads={reads} />
    </>
  );
}

/** Read about each job, once per question: what stands in it does not change under the reader. */
function useReads<Data>(jobs: Job[], what: string, read: (job: Job) => Promise<Data>) {
  const isDoing = useIsDoing();
  return useQueries({
    queries: (jobs.length > READ_MAX ? [] : jobs).map((job) => ({
      queryKey: ["question", what, job.job_id],
      queryFn: () => read(job),
      gcTime: 0,
      staleTime: 0,
      enabled: !isDoing,
    })),
  }) as UseQueryResult<Data, Error>[];
}

/** The sum over all jobs; null while one of them is not known. Refused ones count for nothing. */
function total<Data>(
  jobs: Job[],
  reads: UseQueryResult<Data, Error>[],
  of: (data: Data) => number,
) {
  if (reads.length < jobs.length || reads.some((read) => read.isPending)) return null;
  return reads.reduce((sum, { data }) => sum + (data === undefined ? 0 : of(data)), 0);
}

function JobNames({ jobs }: { jobs: Job[] }) {
  const shown = jobs.slice(0, SHOWN_MAX);
  return (
    <ul className="flex flex-col gap-1">
      {shown.map((job) => (
        <li key={job.job_id} className="flex min-w-0 items-center gap-2">
          <span className="font-mono text-[0.8125rem]">{job.job_id}</span>
          <span className="min-w-0 truncate">
            <Said text={job.name} lengthMax={80} />
          </span>
          <Badge state={job.state} />
        </li>
      ))}
      {jobs.length > shown.length && (
        <li className="text-dim">and {plural(jobs.length - shown.length, "other job")}</li>
      )}
    </ul>
  );
}

function Sentences({ words }: { words: string[] }) {
  return words.map((sentence) => <p key={sentence}>{sentence}</p>);
}

/** What the server would refuse, told before it is asked in earnest. */
function Objections({ jobs, reads }: { jobs: Job[]; reads: UseQueryResult<unknown, Error>[] }) {
  return reads.map(
    ({ error }, at) =>
      error && (
        <p key={jobs[at]?.job_id} className="text-bad">
          {jobs[at]?.job_id}: {inert(error.message)}
        </p>
      ),
  );
}
