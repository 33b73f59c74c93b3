/** What was added, removed and changed from one version to another. */
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { Button } from "../../parts/button";
import { bytes, count } from "../../parts/format";
import { Empty, Panel } from "../../parts/page";
import { ReadPages } from "../../parts/read_pages";
import { Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { useReadOn } from "./entries";
import { type Dataset, type Difference, type Entry, useComparison } from "./reads";
import { VersionChoice } from "./version_choice";

const MARKS = { added: "+", removed: "−", changed: "≠" } as const;
const LOOKS = { added: "text-good", removed: "text-bad", changed: "text-warn" } as const;

const COLUMNS: Column<Difference>[] = [
  {
    id: "kind",
    title: "What",
    width: "7rem",
    cell: ({ kind }) => (
      <span className={LOOKS[kind]}>
        <span aria-hidden="true" className="mr-1.5 font-mono">
          {MARKS[kind]}
        </span>
        {kind}
      </span>
    ),
  },
  {
    id: "key",
    title: "Key",
    width: "24%",
    cell: ({ key }) => <Said text={key} lengthMax={200} />,
  },
  { id: "before", title: "Before", cell: ({ before }) => <Brief entry={before} /> },
  { id: "after", title: "After", cell: ({ after }) => <Brief entry={after} /> },
];

function Brief({ entry }: { entry: Entry | null }) {
  if (entry === null) return <Nothing />;
  const { size_bytes: size, checksum } = entry;
  return (
    <>
      <span className="line-clamp-2 font-mono text-xs break-all">
        <Said text={entry.uri} lengthMax={300} />
      </span>
      <span className="text-dim block text-xs break-all">
        {size !== null && bytes(size)}
        {size !== null && checksum !== null && ", "}
        {checksum !== null && <Said text={checksum} lengthMax={80} />}
      </span>
    </>
  );
}

export function Comparison({ dataset }: { dataset: Dataset }) {
  const [params, setParams] = useSearchParams();
  const { current_version: current, newest_version: newest } = dataset;
  // Mostly one asks what a cut-over to the newest version would change.
  const to = params.get("version") ?? String(newest ?? "");
  const before = newest !== null && newest > 1 ? newest - 1 : newest;
  const from = params.get("compare") ?? String((current === newest ? before : current) ?? before);
  if (newest === null) {
    return <Empty title="No version has been opened, so there is nothing to compare." />;
  }
  const choose = (compare: string, version: string) =>
    setParams((old) => {
      const after = new URLSearchParams(old);
      after.set("compare", compare);
      after.set("version", version);
      return after;
    });
  return (
    <Panel flush>
      <div className="border-line flex flex-wrap items-center gap-3 border-b p-3">
        <VersionChoice
          dataset={dataset}
          name="From version"
          value={from}
          onChange={(chosen) => choose(chosen, to)}
        />
        <VersionChoice
          dataset={dataset}
          name="to version"
          value={to}
          onChange={(chosen) => choose(from, chosen)}
        />
        <Button onClick={() => choose(to, from)}>Turn around</Button>
      </div>
      <Compared key={`${from} ${to}`} dataset={dataset.name} from={from} to={to} />
    </Panel>
  );
}

function Compared({ dataset, from, to }: { dataset: string; from: string; to: string }) {
  const query = useComparison(dataset, from, to);
  const rows = useMemo(
    () => query.data?.pages.flatMap((page) => page.differences) ?? [],
    [query.data],
  );
  const onSight = useReadOn(query, rows.length);
  return (
    <ReadPages query={query} what="the differences">
      {() => (
        <>
          {rows.length > 0 && <Sums rows={rows} isAll={!query.hasNextPage} />}
          <Table
            label={`Differences from version ${from} to version ${to}`}
            rows={rows}
            columns={COLUMNS}
            rowKey={(row) => row.key}
            height="34rem"
            onSight={onSight}
            empty={
              query.hasNextPage ? (
                <p className="text-dim p-4">No difference so far; there is more to compare.</p>
              ) : (
                <Empty title={`Versions ${from} and ${to} have the same entries.`} />
              )
            }
          />
        </>
      )}
    </ReadPages>
  );
}

function Sums({ rows, isAll }: { rows: Difference[]; isAll: boolean }) {
  const sums = (["added", "removed", "changed"] as const).map(
    (kind) => `${count(rows.filter((row) => row.kind === kind).length)} ${kind}`,
  );
  return (
    <p className="text-dim border-line border-b px-3 py-2">
      {sums.join(", ")}
      {!isAll && " so far"}
    </p>
  );
}
