/** The entries of one version; which one stands in the address. */
import { useCallback, useMemo } from "react";
import { bytes } from "../../parts/format";
import { useParam } from "../../parts/params";
import { Empty, Panel } from "../../parts/page";
import { ReadPages } from "../../parts/read_pages";
import { Ago, Block, Copy, Fact, Facts, Id, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { pretty } from "../../parts/text";
import { type Dataset, type Entry, useEntries } from "./reads";
import { VersionChoice } from "./version_choice";

const COLUMNS: Column<Entry>[] = [
  {
    id: "partition",
    title: "Partition",
    width: "22%",
    cell: (entry) => (
      <>
        <Said text={entry.partition_key} lengthMax={120} />
        {entry.key !== entry.partition_key && (
          <span className="text-dim block text-xs">
            key <Said text={entry.key} lengthMax={120} />
          </span>
        )}
      </>
    ),
  },
  {
    id: "uri",
    title: "URI",
    cell: (entry) => (
      <span className="line-clamp-2 font-mono text-xs break-all">
        <Said text={entry.uri} lengthMax={300} />
        <Copy text={entry.uri} what="uri" />
      </span>
    ),
  },
  {
    id: "size",
    title: "Size",
    width: "6rem",
    className: "text-right whitespace-nowrap",
    cell: ({ size_bytes: size }) => (size === null ? <Nothing /> : bytes(size)),
  },
  {
    id: "checksum",
    title: "Checksum",
    width: "20%",
    cell: ({ checksum }) =>
      checksum === null ? (
        <Nothing />
      ) : (
        <span className="line-clamp-1 font-mono text-xs break-all">
          <Said text={checksum} lengthMax={256} />
        </span>
      ),
  },
  {
    id: "task",
    title: "Committed by",
    width: "9rem",
    cell: ({ task_id: id }) => <Id id={id} to={`/tasks/${id}`} />,
  },
];

export function Entries({ dataset }: { dataset: Dataset }) {
  const fallback = String(dataset.current_version ?? dataset.newest_version ?? "");
  const [version, choose] = useParam("version");
  const chosen = version || fallback;
  if (chosen === "") return <Empty title="No version has been opened, so there are no entries." />;
  return (
    <Panel flush>
      <div className="border-line border-b p-3">
        <VersionChoice dataset={dataset} name="Version" value={chosen} onChange={choose} />
      </div>
      <Listed key={chosen} dataset={dataset.name} version={chosen} />
    </Panel>
  );
}

function Listed({ dataset, version }: { dataset: string; version: string }) {
  const query = useEntries(dataset, version);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.entries) ?? [], [query.data]);
  const onSight = useReadOn(query, rows.length);
  return (
    <ReadPages query={query} what="entries">
      {() => (
        <Table
          label={`Entries of version ${version}`}
          rows={rows}
          columns={COLUMNS}
          rowKey={(row) => row.key}
          detail={(row) => <Whole entry={row} />}
          height="34rem"
          onSight={onSight}
          empty={
            <Empty title={`Version ${version} has no entries.`}>
              <p>Tasks of jobs with this output commit them with their success.</p>
            </Empty>
          }
        />
      )}
    </ReadPages>
  );
}

/** Read the next page when the end comes into sight. */
export function useReadOn(
  query: { hasNextPage: boolean; isFetching: boolean; fetchNextPage: () => unknown },
  length: number,
) {
  const { hasNextPage, isFetching, fetchNextPage } = query;
  return useCallback(
    (_: number, last: number) => {
      if (hasNextPage && !isFetching && last >= length - 1) void fetchNextPage();
    },
    [hasNextPage, isFetching, fetchNextPage, length],
  );
}

function Whole({ entry }: { entry: Entry }) {
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <Facts>
        <Fact name="Key">
          <Said text={entry.key} />
        </Fact>
        <Fact name="Committed">
          <Ago ms={entry.committed_at_ms} />
        </Fact>
        <Fact name="By">
          <Id id={entry.task_id} to={`/tasks/${entry.task_id}?attempt=${entry.attempt}`} />
          {` attempt ${entry.attempt}`}
        </Fact>
        <Fact name="Copied from version">{entry.copied_from ?? <Nothing />}</Fact>
        <Fact name="Checksum">
          <span className="break-all">
            {entry.checksum === null ? <Nothing /> : <Said text={entry.checksum} />}
          </span>
        </Fact>
      </Facts>
      <Block text={entry.uri} label="uri" />
      {entry.metadata !== null && <Block text={pretty(entry.metadata)} label="metadata" />}
    </div>
  );
}
