/** The bar of what can be done with the selected jobs; below the list, so that no row moves. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import type { Job } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { newRequestKey } from "../../parts/request_key";
import { inert } from "../../parts/text";
import {
  actOnEach,
  cancelJob,
  doneOf,
  type Outcome,
  type Refused,
  refusedOf,
  replayLetters,
  rerunJob,
} from "./acting";
import { canCancel, hasDeadLetters, idList, isLive, type Mode } from "./plan";
import { CancelBody, ReplayBody, RerunBody } from "./questions";

type Report = { said: string; refused: Refused[] };

export function SelectionBar({
  jobs,
  unseen,
  onLeft,
}: {
  jobs: Job[];
  /** How many of them are on another page, or below a row that is folded. */
  unseen: number;
  /** Told which jobs are to stay selected. */
  onLeft: (left: Job[]) => void;
}) {
  const client = useQueryClient();
  const ask = useConfirm();
  const [report, setReport] = useState<Report | null>(null);
  if (jobs.length === 0) return null;

  /** Keep what was refused, tell why; what became of the others is announced. */
  async function finish(outcomes: Outcome<unknown>[], said: string): Promise<string> {
    const refused = refusedOf(outcomes);
    await client.invalidateQueries({ queryKey: ["jobs"] });
    onLeft(refused.map(({ job }) => job));
    setReport(refused.length > 0 ? { said, refused } : null);
    return refused.length > 0 ? "" : said;
  }
  function cancel(targets: Job[], mode: Mode) {
    const what = `Cancel ${plural(targets.length, "job")}${mode === "hard" ? " hard" : ""}`;
    ask({
      title: `${what}?`,
      body: <CancelBody jobs={jobs} mode={mode} />,
      action: what,
      danger: true,
      run: async () => {
        const outcomes = await actOnEach(targets, (job) => cancelJob(job, mode));
        const changed = doneOf(outcomes).filter(Boolean).length;
        const late = doneOf(outcomes).length - changed;
        const aside = late > 0 ? `; ${late} had ended or been cancelled before` : "";
        return finish(outcomes, `Cancelled ${plural(changed, "job")}${aside}.`);
      },
    });
  }
  function rerun(targets: Job[]) {
    const key = newRequestKey();
    const what = `Run ${plural(targets.length, "job")} again`;
    ask({
      title: `${what}?`,
      body: <RerunBody jobs={jobs} />,
      action: what,
      run: async () => {
        const outcomes = await actOnEach(targets, (job) => rerunJob(job, key));
        return finish(outcomes, submitted(doneOf(outcomes)));
      },
    });
  }
  function replay(targets: Job[]) {
    const key = newRequestKey();
    ask({
      title: `Replay dead letters of ${plural(targets.length, "job")}?`,
      body: <ReplayBody jobs={jobs} />,
      action: "Replay dead letters",
      run: async () => {
        const outcomes = await actOnEach(targets, (job) => replayLetters(job, key));
        return finish(outcomes, submitted(doneOf(outcomes).flat()));
      },
    });
  }

  const soft = jobs.filter((job) => canCancel(job, "soft"));
  const hard = jobs.filter((job) => canCancel(job, "hard"));
  const ended = jobs.filter((job) => !isLive(job));
  const dead = jobs.filter(hasDeadLetters);
  return (
    <section
      aria-label="Selected jobs"
      className="border-line bg-panel sticky bottom-3 z-10 flex flex-col gap-2 rounded-lg border p-3 shadow-lg"
    >
      {report !== null && <RefusedList report={report} selected={jobs} />}
      <div className="flex flex-wrap items-center gap-2">
        <p role="status" className="mr-2 font-medium">
          {jobs.length} selected
          {unseen > 0 &&
            `, ${unseen === jobs.length ? "none" : jobs.length - unseen} of them in this list`}
        </p>
        {soft.length > 0 && (
          <Button look="danger" onClick={() => cancel(soft, "soft")}>
            Cancel {plural(soft.length, "job")}
          </Button>
        )}
        {hard.length > 0 && (
          <Button onClick={() => cancel(hard, "hard")}>Cancel {hard.length} hard</Button>
        )}
        {dead.length > 0 && (
          <Button onClick={() => replay(dead)}>
            Replay dead letters of {plural(dead.length, "job")}
          </Button>
        )}
        {ended.length > 0 && (
          <Button onClick={() => rerun(ended)}>Run {plural(ended.length, "job")} again</Button>
        )}
        <Button onClick={() => onLeft([])} className="ml-auto">
          Select none
        </Button>
      </div>
    </section>
  );
}

/** New jobs by their ids; a list of them is what the reader looks for next. */
function submitted(made: { job_id?: string | null }[]): string {
  const jobs = made.flatMap(({ job_id }) => (job_id == null ? [] : [{ job_id } as Job]));
  if (jobs.length === 0) return "Nothing was submitted.";
  return `Submitted ${jobs.length === 1 ? "job" : "jobs"} ${idList(jobs)}.`;
}

function RefusedList({ report, selected }: { report: Report; selected: Job[] }) {
  const refused = report.refused.filter(({ job }) => selected.some((s) => s.job_id === job.job_id));
  if (refused.length === 0) return null;
  return (
    <div role="alert" className="bg-bad-soft text-bad rounded border border-current px-3 py-2">
      <p>
        {report.said} {plural(refused.length, "job was", "jobs were")} refused and{" "}
        {refused.length === 1 ? "stays" : "stay"} selected:
      </p>
      <ul className="max-h-40 overflow-auto">
        {refused.map(({ job, error }) => (
          <li key={job.job_id} className="break-words">
            <Link href={`/jobs/${job.job_id}`} className="text-bad underline">
              {job.job_id}
            </Link>
            : <bdi>{inert(error.message)}</bdi>
          </li>
        ))}
      </ul>
    </div>
  );
}
