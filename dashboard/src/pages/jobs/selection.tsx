/** The bar of what can be done with the selected jobs; below the list, so that no row moves. */
import { useQueryClient } from "@tanstack/react-query";
import { Fragment, type ReactNode, useState } from "react";
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
import { canCancel, hasDeadLetters, isLive, type Mode } from "./plan";
import { CancelBody, ReplayBody, RerunBody } from "./questions";

type Report = { said: ReactNode; refused: Refused[] };

const LINKS_MAX = 100;

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
  async function finish(outcomes: Outcome<unknown>[], said: ReactNode): Promise<ReactNode> {
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
      reasonFor: "kept with each job",
      run: async (reason) => {
        const outcomes = await actOnEach(targets, (job) => cancelJob(job, mode, reason));
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
        return finish(outcomes, tellSubmitted(doneOf(outcomes)));
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
        const made = doneOf(outcomes).flatMap(({ replays, resumed }) => [...replays, ...resumed]);
        return finish(outcomes, tellSubmitted(made));
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
          <Button needs="submit" look="danger" onClick={() => cancel(soft, "soft")}>
            Cancel {plural(soft.length, "job")}
          </Button>
        )}
        {hard.length > 0 && (
          <Button needs="submit" onClick={() => cancel(hard, "hard")}>
            Cancel {hard.length} hard
          </Button>
        )}
        {dead.length > 0 && (
          <Button needs="submit" onClick={() => replay(dead)}>
            Replay dead letters of {plural(dead.length, "job")}
          </Button>
        )}
        {ended.length > 0 && (
          <Button needs="submit" onClick={() => rerun(ended)}>
            Run {plural(ended.length, "job")} again
          </Button>
        )}
        <Button onClick={() => onLeft([])} className="ml-auto">
          Select none
        </Button>
      </div>
    </section>
  );
}

/** New jobs with links: they are what the reader looks for next. */
function tellSubmitted(made: { job_id?: string | null }[]): ReactNode {
  const ids = made.flatMap(({ job_id: id }) => id ?? []).sort((a, b) => Number(a) - Number(b));
  if (ids.length === 0) return "Nothing was submitted.";
  const rest = ids.length - LINKS_MAX;
  return (
    <span className="inline-block max-h-40 overflow-auto align-top">
      Submitted {ids.length === 1 ? "job" : `${ids.length} jobs:`}{" "}
      {ids.slice(0, LINKS_MAX).map((id, place) => (
        <Fragment key={id}>
          {place > 0 && ", "}
          <Link href={`/jobs/${id}`} className="underline">
            {id}
          </Link>
        </Fragment>
      ))}
      {rest > 0 && ` and ${plural(rest, "other")}`}.
    </span>
  );
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
