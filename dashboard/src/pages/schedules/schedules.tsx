/** The schedules: what each runs and when, what comes next, how the last one ended, what was missed. */
import { useMemo } from "react";
import { Link, useLocation } from "wouter";
import type { Schedule } from "../../api/types";
import { Button } from "../../parts/button";
import { count } from "../../parts/format";
import { Mark } from "../../parts/mark";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { Ago, Badge, Block, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { useSchedules } from "./reads";
import { timing } from "./words";

/** From here on only the rows in sight are drawn. */
const DRAWN_MAX = 100;

const COLUMNS: Column<Schedule>[] = [
  {
    id: "schedule",
    title: "Schedule",
    cell: (schedule) => (
      <div className="min-w-28 wrap-anywhere">
        <Link href={pathOf(schedule.name)} className="font-medium">
          <Said text={schedule.name} lengthMax={200} />
        </Link>
        <Marks schedule={schedule} />
        <div className="text-dim font-mono text-xs sm:hidden">{timing(schedule)}</div>
      </div>
    ),
    sort: (schedule) => schedule.name,
    width: "14rem",
  },
  {
    id: "timing",
    title: "Fires",
    cell: (schedule) => (
      <span className="font-mono text-[0.8125rem] wrap-anywhere">{timing(schedule)}</span>
    ),
    className: "hidden sm:table-cell",
    width: "14rem",
  },
  {
    id: "runs",
    title: "Runs",
    cell: (schedule) => (
      <div className="min-w-28 font-mono text-[0.8125rem] wrap-anywhere">
        <Said text={schedule.runs} lengthMax={160} />
      </div>
    ),
    className: "hidden lg:table-cell",
  },
  {
    id: "next",
    title: "Next",
    cell: (schedule) => <Ago ms={schedule.next_firings_ms[0]} />,
    sort: (schedule) => schedule.next_firings_ms[0] ?? Number.MAX_SAFE_INTEGER,
    width: "8rem",
  },
  {
    id: "last",
    title: "Last",
    cell: (schedule) => <Last schedule={schedule} />,
    sort: (schedule) => schedule.last_firings[0]?.instant_ms ?? 0,
    width: "10rem",
  },
  {
    id: "missed",
    title: "Missed",
    cell: (schedule) =>
      schedule.missed_instants > 0 ? (
        <span title="Instants that passed without anybody looking">
          {count(schedule.missed_instants)}
        </span>
      ) : (
        <Nothing />
      ),
    sort: (schedule) => schedule.missed_instants,
    className: "hidden sm:table-cell text-right tabular-nums",
    width: "6rem",
  },
];

export function pathOf(name: string): string {
  return `/schedules/${encodeURIComponent(name)}`;
}

export function Marks({ schedule }: { schedule: Schedule }) {
  return (
    <>
      {schedule.state === "paused" && (
        <div>
          <Mark tone="warn">
            paused
            {schedule.paused_by != null && (
              <>
                {" "}
                by <Said text={schedule.paused_by} lengthMax={60} />
              </>
            )}
          </Mark>
        </div>
      )}
      {schedule.state === "retired" && (
        <div>
          <Mark tone="warn">code names it no more</Mark>
        </div>
      )}
      {schedule.state === "ended" && <div className="text-dim text-xs">ended</div>}
      {schedule.problem != null && (
        <div>
          <Mark tone="bad">could not be fired</Mark>
        </div>
      )}
    </>
  );
}

function Last({ schedule }: { schedule: Schedule }) {
  const last = schedule.last_firings[0];
  if (last === undefined) return <Nothing />;
  return (
    <div className="flex flex-wrap items-center gap-1">
      {last.job_id == null ? (
        <span className="text-dim">{last.outcome}</span>
      ) : (
        <Link href={`/jobs/${last.job_id}`}>
          {last.job_state == null ? `job ${last.job_id}` : <Badge state={last.job_state} />}
        </Link>
      )}
      <Ago ms={last.instant_ms} />
    </div>
  );
}

export default function SchedulesPage() {
  const list = useSchedules();
  const [, go] = useLocation();
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.schedules) ?? [], [list.data]);
  return (
    <Page title="Schedules">
      <Read query={list} what="the schedules">
        {() => (
          <>
            <Panel flush>
              <Table
                label="Schedules"
                rows={rows}
                columns={COLUMNS}
                rowKey={({ name }) => name}
                onOpen={({ name }) => go(pathOf(name))}
                height={rows.length > DRAWN_MAX ? "75vh" : undefined}
                empty={<NoSchedules />}
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
    </Page>
  );
}

function NoSchedules() {
  return (
    <Empty title="There are no schedules.">
      <p>A schedule submits a job again and again, at times that you choose.</p>
      <div className="w-full max-w-xl text-left">
        <Block
          label="How to make a schedule"
          text={'@hf.task(queue="default", schedule="0 3 * * *", tz="Europe/Berlin")'}
        />
      </div>
    </Empty>
  );
}
