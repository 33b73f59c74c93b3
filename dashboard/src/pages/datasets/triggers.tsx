/** The jobs that start when a new version becomes current. */
import { Empty, Panel, Read } from "../../parts/page";
import { Ago, Block, Id, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { readable } from "../../parts/text";
import { type Dataset, type Trigger, useTriggers } from "./reads";

const COLUMNS: Column<Trigger>[] = [
  { id: "name", title: "Trigger", cell: (trigger) => <Said text={trigger.name} lengthMax={200} /> },
  {
    id: "job",
    title: "Starts",
    className: "w-full",
    cell: ({ spec, problem }) => (
      <>
        <Said text={String(spec.name ?? spec.type ?? "a job")} lengthMax={200} />
        {problem !== null && (
          <span className="text-bad block text-xs">
            <Said text={problem} lengthMax={500} />
          </span>
        )}
      </>
    ),
  },
  {
    id: "version",
    title: "Last version",
    className: "hidden sm:table-cell text-right",
    cell: ({ last_version: version }) => version ?? <Nothing />,
  },
  {
    id: "last",
    title: "Last job",
    cell: ({ last_job_id: id }) =>
      id === null ? <Nothing /> : <Id id={id} to={`/jobs/${id}`} what="job" />,
  },
  {
    id: "when",
    title: "Started",
    className: "hidden sm:table-cell",
    cell: (trigger) => <Ago ms={trigger.last_started_at_ms} />,
  },
];

export function Triggers({ dataset }: { dataset: Dataset }) {
  const query = useTriggers(dataset.name);
  return (
    <Panel flush>
      <Read query={query} what="triggers">
        {({ triggers }) => (
          <Table
            label="Triggers"
            rows={triggers}
            columns={COLUMNS}
            rowKey={(row) => row.name}
            detail={(row) => <Block text={readable(row.spec)} label={`spec of ${row.name}`} />}
            empty={
              <Empty title="No trigger: a cut-over starts no job.">
                <p>
                  <code>dataset.on_cut_over(name, task)</code> has each new version start one.
                </p>
              </Empty>
            }
          />
        )}
      </Read>
    </Panel>
  );
}
