/** The fleet: who is there, how each does, what it holds, and the way to let one go. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, root, unwrap } from "../../api/client";
import type { Worker } from "../../api/types";
import { Button } from "../../parts/button";
import { plural } from "../../parts/format";
import { Empty, Failure, Page, Panel, Read } from "../../parts/page";
import { Ago, Block, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { Condition, Failures, Runs, Serves, Who } from "./cells";
import { Details } from "./details";
import { Drain } from "./drain";
import { Filter, useWanted } from "./filter";
import { failuresOf, heardAt, isWanted } from "./fleet";
import { HEALTH } from "./health";
import { Meters } from "./meters";

const READ_AGAIN_MS = 3000;
const PAGE_SIZE = 500;
/** From here on only the rows in sight are drawn. */
const DRAWN_MAX = 100;

const COLUMNS: Column<Worker>[] = [
  {
    id: "worker",
    title: "Worker",
    cell: (worker) => <Who worker={worker} />,
    sort: (worker) => `${worker.name} ${worker.worker_id}`,
    width: "14rem",
  },
  {
    id: "host",
    title: "Host",
    cell: (worker) => (
      <div className="max-w-40 min-w-20 wrap-anywhere">
        <Said text={worker.host} lengthMax={60} />
      </div>
    ),
    sort: (worker) => worker.host,
    className: "hidden xl:table-cell",
    width: "5rem",
  },
  {
    id: "health",
    title: "Health",
    cell: (worker) => <Condition worker={worker} />,
    sort: (worker) => (HEALTH as readonly string[]).indexOf(worker.health),
    width: "6rem",
  },
  {
    id: "failures",
    title: "Failed in 1 h",
    cell: (worker) => <Failures worker={worker} />,
    sort: (worker) => failuresOf(worker).failures,
    width: "7rem",
  },
  {
    id: "heard",
    title: "Heartbeat",
    cell: (worker) => <Ago ms={heardAt(worker)} />,
    sort: (worker) => heardAt(worker) ?? 0,
    className: "hidden sm:table-cell",
    width: "6.5rem",
  },
  {
    id: "capacity",
    title: "Capacity used",
    cell: (worker) => <Meters worker={worker} />,
    className: "hidden lg:table-cell",
    width: "12rem",
  },
  {
    id: "runs",
    title: "Runs",
    cell: (worker) => <Runs worker={worker} />,
    sort: (worker) => worker.running,
    className: "hidden sm:table-cell",
    width: "7rem",
  },
  {
    id: "serves",
    title: "Serves",
    cell: (worker) => <Serves worker={worker} />,
    className: "hidden xl:table-cell",
    width: "7rem",
  },
  {
    id: "drain",
    title: <span className="sr-only">Drain</span>,
    cell: (worker) => <Drain worker={worker} />,
    className: "hidden sm:table-cell text-right",
    width: "5.3rem",
  },
];

export function WorkersPage() {
  const wanted = useWanted();
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const { workerId } = wanted;
  useEffect(() => {
    if (workerId !== "") setOpened((before) => new Set(before).add(workerId));
  }, [workerId]);

  const list = useWorkers();
  const read = useMemo(() => list.data?.pages.flatMap((page) => page.workers) ?? [], [list.data]);
  const isFar = workerId !== "" && list.data !== undefined && !hasWorker(read, workerId);
  const named = useWorker(workerId, isFar);
  const workers = isFar && named.data !== undefined ? [named.data, ...read] : read;
  const shown = workers.filter((worker) => isWanted(worker, wanted));
  const lost = workers.filter((worker) => worker.health === "lost").length;
  return (
    <Page title="Workers">
      <Read query={list} what="the workers">
        {() =>
          workers.length === 0 ? (
            <>
              {named.error && <Failure error={named.error} />}
              <NoWorkers />
            </>
          ) : (
            <>
              {isFar && named.error && <Failure error={named.error} />}
              <Filter lost={lost} />
              <Panel flush>
                <Table
                  label="Workers"
                  rows={shown}
                  columns={COLUMNS}
                  rowKey={(worker) => worker.worker_id}
                  detail={(worker) => <Details worker={worker} />}
                  opened={opened}
                  onOpened={setOpened}
                  at={workerId === "" ? undefined : workerId}
                  height={shown.length > DRAWN_MAX ? "75vh" : undefined}
                  empty={
                    <Empty title="No worker is like that.">
                      <p>
                        {plural(workers.length, "worker")} in all; {lost} of them lost.
                      </p>
                    </Empty>
                  }
                />
              </Panel>
              {list.hasNextPage && (
                <p className="text-dim flex flex-wrap items-center gap-3">
                  The first {read.length} workers, the living first.
                  <Button
                    disabled={list.isFetchingNextPage}
                    onClick={() => void list.fetchNextPage()}
                  >
                    Read more
                  </Button>
                </p>
              )}
            </>
          )
        }
      </Read>
    </Page>
  );
}

function hasWorker(workers: Worker[], workerId: string): boolean {
  return workers.some((worker) => worker.worker_id === workerId);
}

function useWorkers() {
  return useInfiniteQuery({
    queryKey: ["workers", "list"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/workers", {
          params: {
            query: { page_size: PAGE_SIZE, ...(pageParam !== null && { page_token: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_page_token,
    // All pages are read again each time: the more there are, the less often.
    refetchInterval: (query) => READ_AGAIN_MS * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}

/** One that the address names and that is not among those that were read. */
function useWorker(workerId: string, isAsked: boolean) {
  return useQuery({
    queryKey: ["workers", "one", workerId],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/workers/{worker_id}", { params: { path: { worker_id: workerId } }, signal }),
      ),
    enabled: isAsked,
    refetchInterval: (query) => (query.state.error === null ? READ_AGAIN_MS : false),
  });
}

function NoWorkers() {
  return (
    <Panel>
      <Empty title="There is no worker yet.">
        <p>Start one on any machine that reaches this server, and it appears here.</p>
        <div className="w-full max-w-xl text-left">
          <Block
            label="How to start a worker"
            text={`holdfast worker --server ${root.href.replace(/\/$/, "")} --queue default --import MODULE`}
          />
        </div>
        <p>
          With <code className="font-mono">--placed</code> in place of a queue it is given what asks
          for cpu, memory or gpus.
        </p>
      </Empty>
    </Panel>
  );
}
