/** The limits: what each allows, how much of it is used, and what waits for it; then the shares. */
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Limit } from "../../api/types";
import { Button } from "../../parts/button";
import { count } from "../../parts/format";
import { Mark } from "../../parts/mark";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { Ago, Block, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { LimitDialog } from "./edit";
import { useLimits } from "./reads";
import { Shares } from "./shares";
import { allows, appliesTo } from "./words";

/** From here on only the rows in sight are drawn. */
const DRAWN_MAX = 100;
const NUMBER = "text-right tabular-nums whitespace-nowrap";

const COLUMNS: Column<Limit>[] = [
  {
    id: "limit",
    title: "Limit",
    cell: (limit) => (
      <div className="min-w-28 wrap-anywhere">
        <Link href={`/limits/${encodeURIComponent(limit.name)}`} className="font-medium">
          <Said text={limit.name} lengthMax={128} />
        </Link>
        {limit.surplus > 0 && (
          <div>
            <Mark tone="warn">{count(limit.surplus)} more than allowed</Mark>
          </div>
        )}
        <div className="text-dim text-xs sm:hidden">
          <Said text={`${allows(limit)}, ${appliesTo(limit)}`} lengthMax={300} />
        </div>
      </div>
    ),
    sort: (limit) => limit.name,
    width: "12rem",
  },
  {
    id: "allows",
    title: "Allows",
    cell: (limit) => allows(limit),
    className: "hidden sm:table-cell",
    width: "14rem",
  },
  {
    id: "for",
    title: "For",
    cell: (limit) => (
      <div className="min-w-28 wrap-anywhere">
        <Said text={appliesTo(limit)} lengthMax={200} />
      </div>
    ),
    className: "hidden sm:table-cell",
  },
  {
    id: "held",
    title: "Slots held",
    cell: (limit) => (limit.kind === "concurrency" ? count(limit.held) : <Nothing />),
    sort: (limit) => limit.held,
    className: NUMBER,
    width: "7rem",
  },
  {
    id: "gated",
    title: "Tasks wait",
    cell: (limit) => count(limit.gated),
    sort: (limit) => limit.gated,
    className: NUMBER,
    width: "7rem",
  },
  {
    id: "changed",
    title: "Changed",
    cell: (limit) => (
      <>
        <Ago ms={limit.updated_at_ms} />{" "}
        <span className="text-dim wrap-anywhere">
          by <Said text={limit.updated_by} lengthMax={60} />
        </span>
      </>
    ),
    sort: (limit) => limit.updated_at_ms,
    className: "hidden lg:table-cell",
    width: "14rem",
  },
];

export default function LimitsPage() {
  const list = useLimits();
  const [isSetting, setIsSetting] = useState(false);
  const [, go] = useLocation();
  const limits = useMemo(() => list.data?.pages.flatMap((page) => page.limits) ?? [], [list.data]);
  return (
    <Page
      title="Limits"
      actions={
        <Button needs="admin" onClick={() => setIsSetting(true)}>
          Set a limit …
        </Button>
      }
    >
      <Read query={list} what="the limits">
        {() => (
          <>
            <Panel flush>
              <Table
                label="Limits"
                rows={limits}
                columns={COLUMNS}
                rowKey={({ name }) => name}
                onOpen={({ name }) => go(`/limits/${encodeURIComponent(name)}`)}
                height={limits.length > DRAWN_MAX ? "75vh" : undefined}
                empty={<NoLimits />}
              />
            </Panel>
            {list.hasNextPage && (
              <div>
                <Button
                  disabled={list.isFetchingNextPage}
                  onClick={() => void list.fetchNextPage()}
                >
                  Read more
                </Button>
              </div>
            )}
          </>
        )}
      </Read>
      <Shares />
      {isSetting && <LimitDialog limit={null} onClose={() => setIsSetting(false)} />}
    </Page>
  );
}

function NoLimits() {
  return (
    <Empty title="There are no limits.">
      <p className="max-w-prose">
        A limit says how many tasks of a queue, type, owner or key run at once, or how many start in
        a time.
      </p>
      <div className="w-full max-w-xl text-left">
        <Block
          label="How to set a limit"
          text="holdfast limits set one-per-customer --per key --slots 1"
        />
      </div>
    </Empty>
  );
}
