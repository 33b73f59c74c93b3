/** The rules by which owners or keys share a queue, or placed work, and whose turn it is. */
import { Link } from "wouter";
import type { Share, ShareRule } from "../../api/types";
import { count } from "../../parts/format";
import { Panel, Read } from "../../parts/page";
import { Ago, Block, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { useShares } from "./reads";

const NUMBER = "text-right tabular-nums whitespace-nowrap";
const STATES: Record<string, string> = {
  sorting: "what was in line before still goes first",
  shared: "",
  ending: "its tasks return to the plain line",
};

const COLUMNS: Column<Share>[] = [
  {
    id: "value",
    title: "Share",
    cell: (share) => (
      <div className="min-w-28 wrap-anywhere">
        <Said text={share.value} lengthMax={200} />
      </div>
    ),
    sort: (share) => share.value,
  },
  {
    id: "weight",
    title: "Weight",
    cell: (share) => count(share.weight),
    sort: (share) => share.weight,
    className: NUMBER,
  },
  {
    id: "running",
    title: "Running",
    cell: (share) => count(share.running),
    sort: (share) => share.running,
    className: NUMBER,
  },
  {
    id: "waiting",
    title: "Tasks wait",
    cell: (share) => count(share.waiting),
    sort: (share) => share.waiting,
    className: NUMBER,
  },
];

export function Shares() {
  const query = useShares();
  return (
    <Read query={query} what="the shares">
      {({ rules }) =>
        rules.length === 0 ? (
          <Panel title="Shares">
            <p className="text-dim max-w-prose pb-2">
              No queue is shared: within a priority, what came first goes first. Shared by owner,
              one with a million tasks does not keep the others waiting.
            </p>
            <div className="max-w-xl">
              <Block label="How to share a queue" text="holdfast shares set QUEUE --by owner" />
            </div>
          </Panel>
        ) : (
          <>
            {rules.map((rule) => (
              <Rule key={rule.queue ?? ""} rule={rule} />
            ))}
          </>
        )
      }
    </Read>
  );
}

function Rule({ rule }: { rule: ShareRule }) {
  const name = rule.queue ?? "placed work";
  return (
    <Panel title={`Shares of ${name}`} flush>
      <p className="text-dim px-4 py-2 text-sm wrap-anywhere">
        {rule.queue === null ? (
          "Placed work"
        ) : (
          <Link href={`/queues?queue=${encodeURIComponent(rule.queue)}`}>
            <Said text={rule.queue} lengthMax={120} />
          </Link>
        )}{" "}
        {rule.by === "nothing" ? "is not shared" : `is shared by ${rule.by}`}
        {rule.age_step_seconds != null &&
          rule.age_max > 0 &&
          `; a waiting task gains a step of priority each ${count(rule.age_step_seconds)} s, ${count(rule.age_max)} at most`}
        {STATES[rule.state] !== "" && `; ${STATES[rule.state] ?? rule.state}`}. Set{" "}
        <Ago ms={rule.updated_at_ms} /> by <Said text={rule.updated_by} lengthMax={60} />.
      </p>
      <Table
        label={`Shares of ${name}`}
        rows={rule.shares}
        columns={COLUMNS}
        rowKey={(share) => share.value}
        empty={<p className="text-dim px-4 pb-4">Nothing waits or runs in it.</p>}
      />
    </Panel>
  );
}
