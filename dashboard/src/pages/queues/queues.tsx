/** The queues: how much waits in each, for how long, how fast it goes, and the way to stop one. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { api, root, unwrap } from "../../api/client";
import type { Queue } from "../../api/types";
import { count, duration } from "../../parts/format";
import { Mark } from "../../parts/mark";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { useParam } from "../../parts/params";
import { Block, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { inert, shorten } from "../../parts/text";
import { drainSeconds, drainWords, paceWords } from "./pace";
import { PauseOrResume } from "./pause";

const READ_AGAIN_MS = 3000;
/** From here on only the rows in sight are drawn. */
const DRAWN_MAX = 200;
const NUMBER = "text-right tabular-nums";

const COLUMNS: Column<Queue>[] = [
  {
    id: "queue",
    title: "Queue",
    cell: (queue) => <Name queue={queue} />,
    sort: (queue) => queue.queue,
    width: "14rem",
  },
  {
    id: "depth",
    title: "Depth",
    cell: (queue) => count(queue.depth),
    sort: (queue) => queue.depth,
    className: NUMBER,
  },
  {
    id: "oldest",
    title: "Oldest",
    cell: (queue) => <Age seconds={queue.oldest_age_seconds} />,
    sort: (queue) => queue.oldest_age_seconds ?? -1,
    className: `${NUMBER} hidden sm:table-cell whitespace-nowrap`,
  },
  {
    id: "waiting",
    title: "Due later",
    cell: (queue) => count(queue.waiting),
    sort: (queue) => queue.waiting,
    className: `${NUMBER} hidden lg:table-cell`,
  },
  {
    id: "running",
    title: "Running",
    cell: (queue) => count(queue.running),
    sort: (queue) => queue.running,
    className: `${NUMBER} hidden sm:table-cell`,
  },
  {
    id: "workers",
    title: "Workers",
    cell: (queue) => <Workers queue={queue} />,
    sort: (queue) => queue.workers,
    className: `${NUMBER} hidden lg:table-cell`,
  },
  {
    id: "pace",
    title: "Finished",
    cell: (queue) => paceWords(queue.finished_per_second),
    sort: (queue) => queue.finished_per_second,
    className: `${NUMBER} hidden sm:table-cell whitespace-nowrap`,
  },
  {
    id: "drains",
    title: "Drains in",
    cell: (queue) => <Drains queue={queue} />,
    sort: drainSeconds,
    className: "hidden lg:table-cell text-right whitespace-nowrap",
  },
  {
    id: "pause",
    title: <span className="sr-only">Pause or resume</span>,
    cell: (queue) => <PauseOrResume queue={queue} />,
    className: "text-right",
    width: "7rem",
  },
];

export function QueuesPage() {
  const [named] = useParam("queue");
  const query = useQuery({
    queryKey: ["queues"],
    queryFn: ({ signal }) => unwrap(api.GET("/api/queues", { signal })),
    refetchInterval: READ_AGAIN_MS,
  });
  const rows = useMemo(
    () => query.data?.queues.toSorted((a, b) => (a.queue < b.queue ? -1 : 1)) ?? [],
    [query.data],
  );
  const at = rows.find((queue) => queue.queue === named);
  return (
    <Page title="Queues">
      <Read query={query} what="the queues">
        {() => (
          <>
            {named !== "" && at === undefined && (
              <p role="status" className="text-dim">
                Nothing waits, runs or has just finished in{" "}
                <strong className="text-ink">
                  <Said text={named} lengthMax={120} />
                </strong>
                , no worker serves it, and it is not paused.
              </p>
            )}
            {at !== undefined && <Remedy queue={at} />}
            <Panel flush>
              <Table
                label="Queues"
                rows={rows}
                columns={COLUMNS}
                rowKey={(queue) => queue.queue}
                at={named === "" ? undefined : named}
                height={rows.length > DRAWN_MAX ? "75vh" : undefined}
                empty={<NoQueues />}
              />
            </Panel>
          </>
        )}
      </Read>
    </Page>
  );
}

function Name({ queue }: { queue: Queue }) {
  const isStuck = drainSeconds(queue) === Infinity && !queue.paused && !isLeft(queue);
  return (
    <div className="min-w-28 wrap-anywhere">
      <Link href={`/jobs?queue=${encodeURIComponent(queue.queue)}`} className="font-medium">
        <bdi>{shorten(inert(queue.queue), 120)}</bdi>
      </Link>
      {queue.paused && (
        <div>
          <Mark tone="warn">
            paused
            {queue.paused_by !== null && (
              <>
                {" "}
                by <Said text={queue.paused_by} lengthMax={60} />
              </>
            )}
          </Mark>
        </div>
      )}
      {isLeft(queue) && (
        <div>
          <Mark tone="bad">no worker serves it</Mark>
        </div>
      )}
      {queue.never_fits > 0 && (
        <div>
          <Mark tone="bad">{count(queue.never_fits)} fit no worker</Mark>
        </div>
      )}
      {/* What a narrow screen has no columns for. */}
      <div className="text-dim text-xs sm:hidden">
        {queue.oldest_age_seconds !== null && (
          <>
            oldest <Age seconds={queue.oldest_age_seconds} />,{" "}
          </>
        )}
        {count(queue.running)} running
        {isStuck && `, ${drainWords(queue)}`}
      </div>
    </div>
  );
}

/** Whether tasks wait for a worker that nobody has started. */
function isLeft(queue: Queue): boolean {
  return !queue.is_served && queue.depth + queue.waiting > 0;
}

function Workers({ queue }: { queue: Queue }) {
  if (queue.workers > 0 || !queue.is_served) {
    return <Link href="/workers">{count(queue.workers)}</Link>;
  }
  return <span title="Somebody claims from it without having registered.">unregistered</span>;
}

/** What to do about the queue that the address names. */
function Remedy({ queue }: { queue: Queue }) {
  if (queue.paused && queue.depth > 0) {
    return (
      <p role="status">
        <strong>
          <Said text={queue.queue} lengthMax={120} />
        </strong>{" "}
        hands nothing out until somebody resumes it.
      </p>
    );
  }
  if (!isLeft(queue)) return null;
  return (
    <div role="status" className="flex min-w-0 flex-col gap-2">
      <p>
        No worker serves{" "}
        <strong>
          <Said text={queue.queue} lengthMax={120} />
        </strong>
        : start one, with whatever its tasks import, or cancel{" "}
        <Link
          href={`/jobs?queue=${encodeURIComponent(queue.queue)}&state=pending,running`}
          className="underline"
        >
          its jobs
        </Link>
        .
      </p>
      <div className="max-w-xl">
        <Block
          label="How to start a worker for it"
          text={`HOLDFAST_SERVER=${root.href.replace(/\/$/, "")} holdfast worker --queue ${queue.queue} --import MODULE`}
        />
      </div>
    </div>
  );
}

function Age({ seconds }: { seconds: number | null }) {
  return seconds === null ? <Nothing /> : duration(seconds * 1000);
}

function Drains({ queue }: { queue: Queue }) {
  const words = drainWords(queue);
  if (words === null) return <Nothing />;
  return drainSeconds(queue) === Infinity ? <Mark tone="warn">{words}</Mark> : words;
}

function NoQueues() {
  return (
    <Empty title="There are no queues.">
      <p>
        A queue appears here when a job is submitted to it, when a worker serves it, or when it is
        paused.
      </p>
      <div className="w-full max-w-xl text-left">
        <Block
          label="How to submit to a queue"
          text={`HOLDFAST_SERVER=${root.href.replace(/\/$/, "")} holdfast submit --queue default -- echo hello`}
        />
      </div>
    </Empty>
  );
}
