/** Every cut-over there was, the latest first. */
import { Empty, Panel } from "../../parts/page";
import { ReadPages } from "../../parts/read_pages";
import { Clock, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { type CutOver, type Dataset, useCutOvers } from "./reads";

const COLUMNS: Column<CutOver>[] = [
  {
    id: "when",
    title: "When",
    // A narrow screen has no room for it in one line.
    className: "max-lg:[&_time]:whitespace-normal",
    cell: (made) => <Clock ms={made.at_ms} date />,
  },
  {
    id: "versions",
    title: "Readers went",
    className: "sm:whitespace-nowrap",
    cell: ({ previous, version }) =>
      previous === null ? `to ${version}` : `from ${previous} to ${version}`,
  },
  {
    id: "who",
    title: "By",
    className: "hidden sm:table-cell wrap-anywhere",
    cell: (made) => <Said text={made.actor} lengthMax={100} />,
  },
  {
    id: "why",
    title: "Reason",
    className: "w-full wrap-anywhere",
    cell: (made) => (
      <>
        <Said text={made.reason ?? "-"} lengthMax={500} />
        <span className="text-dim block text-xs sm:hidden">
          by <Said text={made.actor} lengthMax={100} />
        </span>
        {made.forced && <span className="text-warn"> (forced)</span>}
      </>
    ),
  },
];

export function History({ dataset }: { dataset: Dataset }) {
  const query = useCutOvers(dataset.name);
  return (
    <Panel flush>
      <ReadPages query={query} what="cut-overs">
        {(pages) => (
          <Table
            label="Cut-overs"
            rows={pages.flatMap((page) => page.cut_overs)}
            columns={COLUMNS}
            rowKey={(row) => String(row.number)}
            empty={
              <Empty title="No version has been cut over to.">
                <p>Until then readers of the current version find none.</p>
              </Empty>
            }
          />
        )}
      </ReadPages>
    </Panel>
  );
}
