/** One page of jobs as a tree: rows unfold to child jobs, and are selected to act on them. */
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { useLocation } from "wouter";
import type { Job } from "../../api/types";
import { plural } from "../../parts/format";
import { Loading, Panel } from "../../parts/page";
import { Table } from "../../parts/table";
import { jobColumns } from "./columns";
import type { Filters } from "./filters";
import { useChildren, useJobs } from "./reading";
import { SelectionBar } from "./selection";
import { growTree, holdBack, reselect, type TreeRow } from "./tree";

export function JobList({
  jobs,
  filters,
  isNewest,
  aside,
  empty,
  isOld,
  pager,
}: {
  jobs: Job[];
  filters: Filters;
  isNewest: boolean;
  aside: ReactNode;
  empty: ReactNode;
  /** Whether it still shows what was asked before. */
  isOld: boolean;
  pager: ReactNode;
}) {
  const [, go] = useLocation();
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<ReadonlyMap<string, Job>>(new Map());
  const { shown, newer, hold, release } = useHeld(jobs, filters, isNewest);
  const childrenOf = useChildren(opened);
  const rows = growTree(shown, opened, childrenOf);
  const known = new Map(rows.map(({ job }) => [job.job_id, job]));
  const selected = new Set(rows.filter(({ job }) => chosen.has(job.job_id)).map(({ key }) => key));

  const unfold = useCallback(({ key }: TreeRow) => {
    setOpened((before) => (before.has(key) ? without(before, key) : new Set([...before, key])));
  }, []);
  const columns = useMemo(() => jobColumns(unfold), [unfold]);

  function select(after: ReadonlyMap<string, Job>) {
    // What is about to make room for another answer is not selected by accident.
    if (isOld) return;
    setChosen(after);
    if (after.size > 0) hold();
  }
  return (
    <>
      <Panel
        title={isNewest ? "Newest" : "Older"}
        flush
        aside={
          newer > 0 ? (
            <button type="button" className="text-accent" onClick={release}>
              Show {newer === jobs.length ? "newer jobs" : plural(newer, "newer job")}
            </button>
          ) : (
            aside
          )
        }
      >
        <div
          aria-busy={isOld}
          className={isOld ? "opacity-60" : ""}
          onPointerEnter={(event) => event.pointerType === "mouse" && hold()}
          onPointerLeave={() => chosen.size === 0 && release()}
        >
          <Table
            label="Jobs"
            rows={rows}
            columns={columns}
            rowKey={(row) => row.key}
            empty={newer > 0 ? <Loading what="jobs" /> : empty}
            onOpen={({ job }) => go(`/jobs/${job.job_id}`)}
            onUnfold={unfold}
            selected={selected}
            onSelect={(keys) => select(reselect(chosen, rows, keys))}
          />
        </div>
      </Panel>
      {pager}
      <SelectionBar
        jobs={[...chosen.values()].map((job) => known.get(job.job_id) ?? job)}
        unseen={[...chosen.keys()].filter((id) => !known.has(id)).length}
        onLeft={(left) => {
          setChosen(new Map(left.map((job) => [job.job_id, job])));
          release();
        }}
      />
    </>
  );
}

/**
 * The jobs to show on the newest page: while somebody reads there, no newer ones.
 *
 * A page has so many jobs, newer ones included. Those that the newer push off its end are read by
 * the time of the newest that is shown, lest a busy system empty the list under the pointer.
 */
function useHeld(jobs: Job[], filters: Filters, isNewest: boolean) {
  const [held, setHeld] = useState<{ newestId: string; until: number } | null>(null);
  const { shown, held: newer } = holdBack(jobs, isNewest && held !== null ? held.newestId : null);
  const older = useJobs(filters, null, { until: held?.until, isWanted: newer > 0 });
  const isRead = newer > 0 && older.data !== undefined && !older.isPlaceholderData;
  function hold() {
    const [newest] = jobs;
    if (!isNewest || newest === undefined) return;
    // The newest by its id is not always the one that was submitted last.
    const until = Math.max(...jobs.map((job) => job.submitted_at_ms)) + 1;
    setHeld((before) => before ?? { newestId: newest.job_id, until });
  }
  return {
    shown: isRead ? holdBack(older.data.jobs, held?.newestId ?? null).shown : shown,
    newer,
    hold,
    release: () => setHeld(null),
  };
}

function without(set: ReadonlySet<string>, key: string): Set<string> {
  return new Set([...set].filter((other) => other !== key));
}
