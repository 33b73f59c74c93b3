/** The functions that workers have announced, each with a way to run it. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { api, unwrap } from "../../api/client";
import type { Function, Parameter } from "../../api/types";
import { Button } from "../../parts/button";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { Ago, Block } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { inert, shorten } from "../../parts/text";
import { useLack } from "../../session/may";
import { RunDialog } from "./run";

const READ_AGAIN_MS = 10_000;
const PAGE_SIZE = 200;
/** From here on only the rows in sight are drawn. */
const DRAWN_MAX = 100;

function columns(run: (chosen: Function) => void): Column<Function>[] {
  return [
    {
      id: "function",
      title: "Function",
      cell: (one) => (
        <div className="min-w-32 wrap-anywhere">
          <bdi className="font-mono text-[0.8125rem]">{shorten(inert(one.path), 160)}</bdi>
          {one.doc != null && <bdi className="text-dim block text-xs">{inert(one.doc)}</bdi>}
        </div>
      ),
      sort: ({ path }) => path,
      width: "14rem",
    },
    {
      id: "parameters",
      title: "Parameters",
      cell: (one) => (
        <bdi className="block min-w-40 font-mono text-xs wrap-anywhere">
          {shorten(inert(one.parameters.map(tell).join(", ")), 300)}
        </bdi>
      ),
      className: "hidden lg:table-cell",
      width: "14rem",
    },
    {
      id: "queue",
      title: "Queue",
      cell: ({ options }) =>
        options.queue == null ? (
          <span className="text-dim whitespace-nowrap">placed work</span>
        ) : (
          <Link
            href={`/queues?queue=${encodeURIComponent(options.queue)}`}
            className="block min-w-28 wrap-anywhere"
          >
            <bdi>{shorten(inert(options.queue), 60)}</bdi>
          </Link>
        ),
      sort: ({ options }) => options.queue ?? "",
      className: "hidden sm:table-cell",
      width: "9rem",
    },
    {
      id: "seen",
      title: "Announced",
      cell: (one) => <Ago ms={one.last_seen_at_ms} />,
      sort: (one) => one.last_seen_at_ms,
      className: "hidden sm:table-cell",
      width: "7rem",
    },
    {
      id: "run",
      title: <span className="sr-only">Run</span>,
      cell: (one) => (
        <Button needs="submit" aria-label={`Run ${inert(one.path)} …`} onClick={() => run(one)}>
          Run …
        </Button>
      ),
      className: "text-right",
      width: "5.5rem",
    },
  ];
}

function tell({ name, annotation, required, is_rest: isRest }: Parameter): string {
  return `${name}${required || isRest ? "" : "?"}${annotation == null ? "" : `: ${annotation}`}`;
}

export default function FunctionsPage() {
  // Kept as it was when it was asked for: the list is read again meanwhile.
  const [chosen, setChosen] = useState<Function | null>(null);
  const mayRun = useLack("submit") === null;
  const list = useFunctions();
  const found = useMemo(
    () => list.data?.pages.flatMap(({ functions }) => functions) ?? [],
    [list.data],
  );
  const shown = useMemo(() => columns(setChosen), []);
  return (
    <Page title="Functions">
      <Read query={list} what="the functions">
        {() => (
          <>
            <Panel flush>
              <Table
                label="Functions"
                rows={found}
                columns={shown}
                rowKey={({ path }) => path}
                onOpen={(one) => mayRun && setChosen(one)}
                height={found.length > DRAWN_MAX ? "75vh" : undefined}
                empty={<NoFunctions />}
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
      {chosen !== null && <RunDialog chosen={chosen} onClose={() => setChosen(null)} />}
    </Page>
  );
}

function useFunctions() {
  return useInfiniteQuery({
    queryKey: ["functions"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/functions", {
          params: {
            query: { page_size: PAGE_SIZE, ...(pageParam !== null && { page_token: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_page_token,
    refetchInterval: (query) => READ_AGAIN_MS * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}

function NoFunctions() {
  return (
    <Empty title="No worker has announced a function.">
      <p>Workers announce what the modules they import decorate with @hf.task.</p>
      <div className="w-full max-w-xl text-left">
        <Block
          label="How to start a worker"
          text="holdfast worker --queue default --import app.tasks"
        />
      </div>
    </Empty>
  );
}
