/** One page of jobs as a tree: rows unfold to child jobs, and are selected to act on them. */
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { useLocation } from "wouter";
import type { Job } from "../../api/types";
import { plural } from "../../parts/format";
import { Panel } from "../../parts/page";
import { Table } from "../../parts/table";
import { jobColumns } from "./columns";
import { useChildren } from "./reading";
import { SelectionBar } from "./selection";
import { growTree, holdBack, reselect, type TreeRow } from "./tree";

export function JobList({
  jobs,
  title,
  aside,
  empty,
  isOld,
  pager,
}: {
  jobs: Job[];
  title: string;
  aside: ReactNode;
  empty: ReactNode;
  /** Whether it still shows what was asked before. */
  isOld: boolean;
  pager: ReactNode;
}) {
  const [, go] = useLocation();
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<ReadonlyMap<string, Job>>(new Map());
  const [newestId, setNewestId] = useState<string | null>(null);
  const childrenOf = useChildren(opened);

  const { shown, held } = holdBack(jobs, newestId);
  const rows = growTree(shown, opened, childrenOf);
  const known = new Map(rows.map(({ job }) => [job.job_id, job]));
  const selected = new Set(rows.filter(({ job }) => chosen.has(job.job_id)).map(({ key }) => key));

  const unfold = useCallback(({ key }: TreeRow) => {
    setOpened((before) => (before.has(key) ? without(before, key) : new Set([...before, key])));
  }, []);
  const columns = useMemo(() => jobColumns(unfold), [unfold]);

  const hold = () => setNewestId((before) => before ?? shown[0]?.job_id ?? null);
  function select(after: ReadonlyMap<string, Job>) {
    setChosen(after);
    if (after.size > 0) hold();
  }
  return (
    <>
      <Panel
        title={title}
        flush
        aside={
          held > 0 ? (
            <button type="button" className="text-accent" onClick={() => setNewestId(null)}>
              Show {plural(held, "newer job")}
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
          onPointerLeave={() => chosen.size === 0 && setNewestId(null)}
        >
          <Table
            label="Jobs"
            rows={rows}
            columns={columns}
            rowKey={(row) => row.key}
            empty={empty}
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
        onLeft={(left) => {
          setChosen(new Map(left.map((job) => [job.job_id, job])));
          setNewestId(null);
        }}
      />
    </>
  );
}

function without(set: ReadonlySet<string>, key: string): Set<string> {
  return new Set([...set].filter((other) => other !== key));
}
