/** All datasets, by name, and the version of each that readers get. */
import { Link, useLocation, useSearchParams } from "wouter";
import { bytes, count } from "../../parts/format";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { Ago, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { datasetAddress } from "./address";
import { type Dataset, useDatasets, useSealedVersion, type Version } from "./reads";

/** What the list of datasets does not tell: it stands with the version. */
function OfCurrent({ row, tell }: { row: Dataset; tell: (version: Version) => React.ReactNode }) {
  const { data } = useSealedVersion(row.name, row.current_version);
  if (row.current_version === null) return <Nothing />;
  return data === undefined ? <span className="text-dim">…</span> : tell(data);
}

const COLUMNS: Column<Dataset>[] = [
  {
    id: "name",
    title: "Name",
    className: "sm:w-full",
    cell: ({ name }) => (
      <Link href={datasetAddress(name)} className="font-medium break-all">
        <Said text={name} />
      </Link>
    ),
  },
  {
    id: "current",
    title: "Current version",
    className: "text-right",
    cell: ({ current_version: current }) => current ?? <span className="text-dim">none yet</span>,
  },
  {
    id: "entries",
    title: "Entries",
    className: "text-right",
    cell: (row) => <OfCurrent row={row} tell={({ entries }) => count(entries ?? 0)} />,
  },
  {
    id: "size",
    title: "Size",
    className: "hidden sm:table-cell text-right whitespace-nowrap",
    cell: (row) => <OfCurrent row={row} tell={({ size_bytes: size }) => bytes(size ?? 0)} />,
  },
  {
    id: "newest",
    title: "Newest version",
    className: "hidden lg:table-cell text-right",
    cell: ({ newest_version: newest }) => newest ?? <Nothing />,
  },
  {
    id: "cut",
    title: "First cut over",
    className: "hidden sm:table-cell",
    cell: (row) => <OfCurrent row={row} tell={({ cut_over_at_ms: ms }) => <Ago ms={ms} />} />,
  },
];

export default function DatasetsPage() {
  const [params, setParams] = useSearchParams();
  const [, go] = useLocation();
  const prefix = params.get("name") ?? "";
  const page = params.get("page") ?? "";
  const query = useDatasets(prefix.trim(), page);
  const search = (name: string) => setParams(name === "" ? {} : { name }, { replace: true });
  return (
    <Page
      title="Datasets"
      actions={
        <input
          type="search"
          value={prefix}
          onChange={(event) => search(event.target.value)}
          aria-label="Beginning of a dataset's name"
          placeholder="Beginning of a name"
          className="border-line bg-panel placeholder:text-dim w-64 max-w-full rounded-md border px-2 py-1"
        />
      }
    >
      <Panel flush>
        <Read query={query} what="datasets">
          {({ datasets, next_page_token: next }) => (
            <>
              <Table
                label="Datasets"
                rows={datasets}
                columns={COLUMNS}
                rowKey={(row) => row.name}
                onOpen={(row) => go(datasetAddress(row.name))}
                empty={prefix === "" ? <None /> : <NoneSuch />}
              />
              {(page !== "" || next !== null) && (
                <nav
                  aria-label="Pages of the list"
                  className="border-line flex gap-4 border-t px-3 py-2"
                >
                  {page !== "" && <Link href={address(prefix, "")}>First page</Link>}
                  {next !== null && <Link href={address(prefix, next)}>Next page</Link>}
                </nav>
              )}
            </>
          )}
        </Read>
      </Panel>
    </Page>
  );
}

function address(name: string, page: string): string {
  const given = Object.entries({ name, page }).filter(([, value]) => value !== "");
  return `/datasets?${new URLSearchParams(given).toString()}`;
}

function None() {
  return (
    <Empty title="No datasets yet.">
      <p className="max-w-prose">
        A dataset keeps the list of what jobs have written, in versions: tasks fill one beside the
        one that is read, and a cut-over makes it current.
      </p>
      <code className="bg-page border-line rounded border px-2 py-1 text-xs">
        holdfast datasets create events
      </code>
    </Empty>
  );
}

function NoneSuch() {
  return (
    <Empty title="No dataset has a name that begins so.">
      <Link href="/datasets">Show all</Link>
    </Empty>
  );
}
