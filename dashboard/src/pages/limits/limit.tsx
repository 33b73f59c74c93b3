/** One limit: of each bucket what is free, who holds it, and when the next can start. */
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, unwrap } from "../../api/client";
import type { Limit, LimitBucket } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { count, plural } from "../../parts/format";
import { Mark } from "../../parts/mark";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { useParam } from "../../parts/params";
import { Ago, Clock, Fact, Facts, Id, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { inert, shorten } from "../../parts/text";
import { LimitDialog } from "./edit";
import { useLimit } from "./reads";
import { allows, appliesTo } from "./words";

const DRAWN_MAX = 100;
const NUMBER = "text-right tabular-nums whitespace-nowrap";

export default function LimitPage({ name }: { name: string }) {
  const [value, setValue] = useParam("value");
  const query = useLimit(name, value);
  const [isSetting, setIsSetting] = useState(false);
  const shown = query.data?.pages[0]?.limit;
  const buckets = useMemo(
    () => query.data?.pages.flatMap((page) => page.buckets) ?? [],
    [query.data],
  );
  return (
    <Page
      title={`Limit ${name}`}
      heading={
        <>
          Limit <Said text={name} lengthMax={128} />
        </>
      }
      actions={
        shown !== undefined && (
          <>
            <Button needs="admin" onClick={() => setIsSetting(true)}>
              Change …
            </Button>
            <Delete limit={shown} />
          </>
        )
      }
    >
      <Read query={query} what="the limit">
        {() =>
          shown !== undefined && (
            <>
              <Head limit={shown} />
              <Find value={value} onFind={setValue} />
              <Panel title="Buckets" flush>
                <Table
                  label="Buckets"
                  rows={buckets}
                  columns={columnsOf(shown)}
                  rowKey={(bucket) => bucket.value}
                  detail={(bucket) => <Holders bucket={bucket} />}
                  height={buckets.length > DRAWN_MAX ? "75vh" : undefined}
                  empty={<NoBuckets value={value} />}
                />
              </Panel>
              {query.hasNextPage && (
                <div>
                  <Button
                    disabled={query.isFetchingNextPage}
                    onClick={() => void query.fetchNextPage()}
                  >
                    Read more
                  </Button>
                </div>
              )}
            </>
          )
        }
      </Read>
      {isSetting && shown !== undefined && (
        <LimitDialog limit={shown} onClose={() => setIsSetting(false)} />
      )}
    </Page>
  );
}

function Head({ limit }: { limit: Limit }) {
  return (
    <Panel>
      {limit.surplus > 0 && (
        <p role="status" className="pb-3">
          <Mark tone="warn">{count(limit.surplus)} more than allowed</Mark> It was lowered below
          what runs. Nothing is ended; nothing new starts there until it fits.
        </p>
      )}
      {limit.gated > 0 && limit.surplus === 0 && (
        <p role="status" className="pb-3">
          {plural(limit.gated, "task waits", "tasks wait")} for room. They start by themselves as
          slots come free, or at once if the limit is raised.
        </p>
      )}
      <Facts>
        <Fact name="Allows">{allows(limit)}</Fact>
        <Fact name="For">
          <Said text={appliesTo(limit)} lengthMax={300} />
        </Fact>
        {limit.kind === "concurrency" && <Fact name="Slots held">{count(limit.held)}</Fact>}
        <Fact name="Tasks wait">{count(limit.gated)}</Fact>
        <Fact name="Changed">
          <Ago ms={limit.updated_at_ms} /> by <Said text={limit.updated_by} lengthMax={100} />
        </Fact>
      </Facts>
    </Panel>
  );
}

function columnsOf(limit: Limit): Column<LimitBucket>[] {
  const isRate = limit.kind !== "concurrency";
  return [
    {
      id: "value",
      title: limit.scope === "name" ? "Limit" : limit.scope,
      cell: (bucket) => (
        <div className="min-w-28 wrap-anywhere">
          <Said text={bucket.value} lengthMax={200} />
          {bucket.gated > 0 && bucket.free <= 0 && (
            <div>
              <Mark tone="warn">full</Mark>
            </div>
          )}
        </div>
      ),
      sort: (bucket) => bucket.value,
    },
    {
      id: "in_use",
      title: isRate ? "Started" : "Held",
      cell: (bucket) => (limit.kind === "bucket" ? <Nothing /> : amount(bucket.in_use)),
      sort: (bucket) => bucket.in_use,
      className: NUMBER,
    },
    {
      id: "free",
      title: "Free",
      cell: (bucket) => amount(bucket.free),
      sort: (bucket) => bucket.free,
      className: NUMBER,
    },
    {
      id: "gated",
      title: "Tasks wait",
      cell: (bucket) => count(bucket.gated),
      sort: (bucket) => bucket.gated,
      className: NUMBER,
    },
    {
      id: "next",
      title: "Next can start",
      cell: (bucket) =>
        bucket.next_at_ms == null ? (
          bucket.free > 0 ? (
            "now"
          ) : (
            <span className="text-dim">when a slot comes free</span>
          )
        ) : (
          <Clock ms={bucket.next_at_ms} />
        ),
      sort: (bucket) => bucket.next_at_ms ?? 0,
      className: "hidden sm:table-cell",
    },
  ];
}

/** Tokens come in fractions. */
function amount(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 1 });
}

function Holders({ bucket }: { bucket: LimitBucket }) {
  if (bucket.holders.length === 0) {
    return <p className="text-dim p-3">No attempt holds slots of it.</p>;
  }
  return (
    <div className="overflow-x-auto p-3">
      <table className="w-full text-left text-sm" aria-label={`Who holds ${inert(bucket.value)}`}>
        <thead className="text-dim text-xs">
          <tr>
            <th className="pr-4 font-normal">Task</th>
            <th className="pr-4 font-normal">Attempt</th>
            <th className="pr-4 font-normal">Slots</th>
            <th className="pr-4 font-normal">Since</th>
            <th className="font-normal">Worker</th>
          </tr>
        </thead>
        <tbody>
          {bucket.holders.map((holder) => (
            <tr key={`${holder.task_id}-${holder.attempt_id}`}>
              <td className="pr-4">
                <Id id={holder.task_id} to={`/tasks/${holder.task_id}`} what="task" />
              </td>
              <td className="pr-4 tabular-nums">{holder.attempt_id}</td>
              <td className="pr-4 tabular-nums">{holder.slots}</td>
              <td className="pr-4">
                <Ago ms={holder.since_ms} />
              </td>
              <td className="wrap-anywhere">
                <Link href={`/workers?worker=${encodeURIComponent(holder.worker_id)}`}>
                  <bdi>{shorten(inert(holder.worker_id), 80)}</bdi>
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Find({ value, onFind }: { value: string; onFind: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  return (
    <form
      className="flex flex-wrap items-center gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        onFind(typed.trim());
      }}
    >
      <input
        type="search"
        aria-label="Find a bucket"
        placeholder="Exact queue, type, owner or key"
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          if (event.target.value === "") onFind("");
        }}
        className="border-line bg-page placeholder:text-dim w-72 max-w-full rounded-md border px-2 py-1"
      />
      <Button type="submit">Find</Button>
    </form>
  );
}

function NoBuckets({ value }: { value: string }) {
  return (
    <Empty title={value === "" ? "Nothing has met this limit yet." : "There is no such bucket."}>
      <p>A bucket appears with the first task that it applies to.</p>
    </Empty>
  );
}

function Delete({ limit }: { limit: Limit }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const [, go] = useLocation();
  const name = shorten(inert(limit.name), 80);
  async function remove(): Promise<string> {
    // Away first: what is gone cannot be read again.
    go("/limits");
    await unwrap(api.DELETE("/api/limits/{limit}", { params: { path: { limit: limit.name } } }));
    await client.invalidateQueries({ queryKey: ["limits"], exact: true });
    return `Limit ${name} is deleted`;
  }
  return (
    <Button
      needs="admin"
      onClick={() =>
        ask({
          title: "Delete this limit?",
          body: (
            <p>
              <strong>
                <Said text={limit.name} />
              </strong>{" "}
              holds nothing back any more
              {limit.gated > 0 && `: ${plural(limit.gated, "waiting task")} can start`}.
            </p>
          ),
          action: "Delete",
          danger: true,
          run: remove,
        })
      }
    >
      Delete …
    </Button>
  );
}
