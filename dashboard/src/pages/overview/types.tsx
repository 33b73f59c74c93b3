/** How long the jobs of each type wait and run: for half of them, and for all but one in twenty. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { api, unwrap } from "../../api/client";
import type { TypeStatus, TypeTimes } from "../../api/types";
import { count, duration } from "../../parts/format";
import { Panel } from "../../parts/page";
import { Nothing } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { inert, shorten } from "../../parts/text";

const READ_AGAIN_MS = 10_000;
const TYPES_MAX = 1000;
/** From here on only the rows in sight are drawn. */
const DRAWN_MAX = 20;
const NUMBER = "text-right tabular-nums whitespace-nowrap";

type Row = { type: string; times: TypeTimes };
type Measure = "wait_p50_ms" | "wait_p95_ms" | "run_p50_ms" | "run_p95_ms";

const COLUMNS: Column<Row>[] = [
  {
    id: "type",
    title: "Type",
    cell: ({ type }) => (
      <Link href={`/jobs?type=${encodeURIComponent(type)}`} className="font-medium wrap-anywhere">
        <bdi>{shorten(inert(type), 80)}</bdi>
      </Link>
    ),
    sort: ({ type }) => type,
    width: "14rem",
  },
  {
    id: "attempts",
    title: "Attempts",
    cell: ({ times }) => count(times.attempts),
    sort: ({ times }) => times.attempts,
    className: `${NUMBER} hidden sm:table-cell`,
  },
  {
    id: "failures",
    title: "Failed",
    cell: ({ times }) => count(times.failures),
    sort: ({ times }) => times.failures,
    className: NUMBER,
  },
  measured("wait_p50_ms", "Wait p50", "hidden lg:table-cell"),
  measured("wait_p95_ms", "Wait p95", ""),
  measured("run_p50_ms", "Run p50", "hidden lg:table-cell"),
  measured("run_p95_ms", "Run p95", ""),
];

function measured(id: Measure, title: string, className: string): Column<Row> {
  return {
    id,
    title,
    cell: ({ times }) => {
      const ms = times[id];
      return ms === null ? <Nothing /> : duration(ms);
    },
    sort: ({ times }) => times[id] ?? -1,
    className: `${NUMBER} ${className}`,
  };
}

export function TypesOfTheHour() {
  const query = useQuery({
    queryKey: ["types", "times"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/types", { params: { query: { page_size: TYPES_MAX } }, signal })),
    refetchInterval: READ_AGAIN_MS,
  });
  const rows = useMemo(() => rowsOf(query.data?.types ?? []), [query.data]);
  if (rows.length === 0) return null;
  return (
    <Panel title="Types, within the last hour" flush>
      <Table
        label="Types"
        rows={rows}
        columns={COLUMNS}
        rowKey={({ type }) => type}
        height={rows.length > DRAWN_MAX ? "40vh" : undefined}
        empty={null}
      />
    </Panel>
  );
}

/** Those of which something ran, the busiest first. */
function rowsOf(types: TypeStatus[]): Row[] {
  return types
    .flatMap(({ type, times }) => (times == null ? [] : [{ type, times }]))
    .toSorted((a, b) => b.times.attempts - a.times.attempts);
}
