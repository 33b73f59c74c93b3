/** The versions of a dataset, the newest first, and what can be done with each. */
import { useMemo } from "react";
import { Link } from "wouter";
import { Button } from "../../parts/button";
import { bytes, count, plural } from "../../parts/format";
import { Empty, Panel } from "../../parts/page";
import { ReadPages } from "../../parts/read_pages";
import { Ago, Id, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { datasetAddress } from "./address";
import { useCutOver, useDrop } from "./deeds";
import { type Dataset, useVersions, type Version } from "./reads";

function VersionState({ version, isCurrent }: { version: Version; isCurrent: boolean }) {
  return (
    <span className="whitespace-nowrap">
      {version.state}
      {isCurrent && (
        <span className="bg-accent-soft text-ink ml-2 rounded-full px-2 py-px text-xs font-medium">
          current
        </span>
      )}
    </span>
  );
}

function EntryCount({ version, words = false }: { version: Version; words?: boolean }) {
  const { entries, state } = version;
  if (entries !== null) return words ? plural(entries, "entry", "entries") : count(entries);
  if (state === "dropped") return words ? null : <Nothing />;
  return <span className="text-dim text-xs whitespace-nowrap">not counted yet</span>;
}

export function Versions({ dataset }: { dataset: Dataset }) {
  const query = useVersions(dataset.name);
  const cutOver = useCutOver(dataset);
  const drop = useDrop(dataset);
  const current = dataset.current_version;
  const columns = useMemo(
    (): Column<Version>[] => [
      {
        id: "version",
        title: "Version",
        cell: ({ version, state }) =>
          state === "dropped" ? (
            version
          ) : (
            <Link
              href={datasetAddress(dataset.name, { tab: "entries", version: String(version) })}
              aria-label={`Entries of version ${version}`}
              className="font-medium"
            >
              {version}
            </Link>
          ),
      },
      {
        id: "state",
        title: "State",
        cell: (row) => (
          <>
            <VersionState version={row} isCurrent={row.version === current} />
            <span className="block sm:hidden">
              <EntryCount version={row} words />
            </span>
          </>
        ),
      },
      {
        id: "entries",
        title: "Entries",
        className: "hidden sm:table-cell text-right",
        cell: (row) => <EntryCount version={row} />,
      },
      {
        id: "size",
        title: "Size",
        className: "hidden sm:table-cell text-right whitespace-nowrap",
        cell: ({ size_bytes: size }) => (size === null ? <Nothing /> : bytes(size)),
      },
      {
        id: "based",
        title: "Based on",
        className: "hidden lg:table-cell text-right",
        cell: ({ based_on: based }) => based ?? <Nothing />,
      },
      {
        id: "opened",
        title: "Opened",
        className: "hidden lg:table-cell",
        cell: (row) => (
          <>
            <Ago ms={row.created_at_ms} />
            <span className="text-dim block text-xs">
              {row.job_id === null ? (
                <>
                  by <Said text={row.created_by} lengthMax={60} />
                </>
              ) : (
                <>
                  with job <Id id={row.job_id} to={`/jobs/${row.job_id}`} />
                </>
              )}
            </span>
          </>
        ),
      },
      {
        id: "cut",
        title: "First cut over",
        className: "hidden lg:table-cell",
        cell: (row) => <Ago ms={row.cut_over_at_ms} />,
      },
      {
        id: "do",
        title: <span className="sr-only">What to do</span>,
        className: "w-full text-right",
        cell: (row) =>
          row.state === "dropped" ? (
            <span className="text-dim text-xs">
              dropped <Ago ms={row.dropped_at_ms} />
            </span>
          ) : (
            row.version !== current && (
              <span className="flex flex-wrap justify-end gap-2">
                <Button
                  needs="admin"
                  aria-label={`Cut over to version ${row.version}`}
                  onClick={() => cutOver(row)}
                >
                  Cut over …
                </Button>
                <Button
                  needs="admin"
                  aria-label={`Drop version ${row.version}`}
                  onClick={() => drop(row)}
                >
                  Drop …
                </Button>
              </span>
            )
          ),
      },
    ],
    [dataset.name, current, cutOver, drop],
  );
  return (
    <Panel flush>
      <ReadPages query={query} what="versions">
        {(pages) => (
          <Table
            label="Versions"
            rows={pages.flatMap((page) => page.versions)}
            columns={columns}
            rowKey={(row) => String(row.version)}
            empty={
              <Empty title="No version has been opened.">
                <code className="bg-page border-line rounded border px-2 py-1 text-xs">
                  holdfast datasets open {dataset.name}
                </code>
              </Empty>
            }
          />
        )}
      </ReadPages>
    </Panel>
  );
}
