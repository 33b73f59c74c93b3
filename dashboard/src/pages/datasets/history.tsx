/** Every cut-over there was, the latest first. */
import { Empty, Panel } from "../../parts/page";
import { Clock, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { ReadPages } from "./pages";
import { type CutOver, type Dataset, useCutOvers } from "./reads";

const COLUMNS: Column<CutOver>[] = [
  { id: "when", title: "When", cell: (made) => <Clock ms={made.at_ms} date /> },
  {
    id: "versions",
    title: "Readers went",
    className: "whitespace-nowrap",
    cell: ({ previous, version }) =>
      previous === null ? `to ${version}` : `from ${previous} to ${version}`,
  },
  { id: "who", title: "By", cell: (made) => <Said text={made.actor} lengthMax={100} /> },
  {
    id: "why",
    title: "Reason",
    className: "w-full",
    cell: (made) => (
      <>
        <Said text={made.reason ?? "-"} lengthMax={500} />
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
