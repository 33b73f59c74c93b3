/** One schedule: its next and last firings, what it missed, the job it submits, and what can be done. */
import { useMemo } from "react";
import { Link } from "wouter";
import type { Firing, ScheduleDetails } from "../../api/types";
import { Button } from "../../parts/button";
import { count, plural } from "../../parts/format";
import { Empty, Page, Panel, Read } from "../../parts/page";
import { Ago, Badge, Block, Clock, Fact, Facts, Id, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { Backfill, PauseOrResume, Remove, RunNow } from "./actions";
import { useFirings, useSchedule } from "./reads";
import { Marks } from "./schedules";
import { catchUp, kindOf, overlap, timing } from "./words";

const DRAWN_MAX = 100;

export default function SchedulePage({ name }: { name: string }) {
  const query = useSchedule(name);
  const shown = query.data;
  return (
    <Page
      title={`Schedule ${name}`}
      heading={
        <>
          Schedule <Said text={name} lengthMax={200} />
        </>
      }
      actions={
        shown !== undefined && (
          <>
            <RunNow schedule={shown} />
            <PauseOrResume schedule={shown} />
            <Backfill schedule={shown} />
            <Remove schedule={shown} />
          </>
        )
      }
    >
      <Read query={query} what="the schedule">
        {(schedule) => (
          <>
            <Head schedule={schedule} />
            <Next schedule={schedule} />
            <Firings name={name} />
            <Misses schedule={schedule} />
            <Panel title="The job">
              <Block label="Spec" text={JSON.stringify(schedule.spec, null, 2)} />
            </Panel>
          </>
        )}
      </Read>
    </Page>
  );
}

function Head({ schedule }: { schedule: ScheduleDetails }) {
  return (
    <Panel>
      <div className="flex flex-wrap gap-2 pb-2 empty:hidden">
        <Marks schedule={schedule} />
      </div>
      {schedule.problem != null && (
        <p role="alert" className="text-bad pb-2 wrap-anywhere">
          <Said text={schedule.problem} />
        </p>
      )}
      <Facts>
        <Fact name="Fires">
          <span className="font-mono text-[0.8125rem]">{timing(schedule)}</span>
        </Fact>
        <Fact name="Runs">
          <Said text={schedule.runs} lengthMax={300} />
          {schedule.num_tasks > 1 && `, ${plural(schedule.num_tasks, "task")}`}
        </Fact>
        <Fact name="Queue">
          {schedule.queue == null ? (
            "placed work"
          ) : (
            <Link href={`/queues?queue=${encodeURIComponent(schedule.queue)}`}>
              <Said text={schedule.queue} lengthMax={120} />
            </Link>
          )}
        </Fact>
        <Fact name="Owner">
          {schedule.owner == null ? <Nothing /> : <Said text={schedule.owner} lengthMax={120} />}
        </Fact>
        <Fact name="Instants that were missed are">{catchUp(schedule)}</Fact>
        <Fact name="The next one">{overlap(schedule)}</Fact>
        {schedule.jitter > 0 && <Fact name="Jitter">up to {count(schedule.jitter)} s</Fact>}
        {schedule.end_at_ms != null && (
          <Fact name="Ends">
            <Clock ms={schedule.end_at_ms} date />
          </Fact>
        )}
        <Fact name="Changed">
          <Ago ms={schedule.changed_at_ms} /> by <Said text={schedule.changed_by} lengthMax={100} />
        </Fact>
        {schedule.declared_by != null && (
          <Fact name="Declared by">
            <Said text={schedule.declared_by} lengthMax={200} />
          </Fact>
        )}
      </Facts>
    </Panel>
  );
}

function Next({ schedule }: { schedule: ScheduleDetails }) {
  return (
    <Panel title="Next firings">
      {schedule.next_firings_ms.length === 0 ? (
        <p className="text-dim">There are none: it is {schedule.state}.</p>
      ) : (
        <ol className="flex flex-col gap-1" aria-label="Next firings">
          {schedule.next_firings_ms.map((ms) => (
            <li key={ms}>
              <Clock ms={ms} date />
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

const COLUMNS: Column<Firing>[] = [
  {
    id: "instant",
    title: "Instant",
    cell: (firing) => <Clock ms={firing.instant_ms} date />,
    sort: (firing) => firing.instant_ms,
  },
  { id: "kind", title: "Fired", cell: kindOf, className: "hidden sm:table-cell" },
  {
    id: "outcome",
    title: "Job",
    cell: (firing) =>
      firing.job_id == null ? (
        <div className="min-w-28 wrap-anywhere">
          {firing.outcome}
          {firing.problem != null && (
            <>
              : <Said text={firing.problem} lengthMax={300} />
            </>
          )}
        </div>
      ) : (
        <Id id={firing.job_id} to={`/jobs/${firing.job_id}`} what="job" />
      ),
  },
  {
    id: "state",
    title: "State",
    cell: (firing) => (firing.job_state == null ? <Nothing /> : <Badge state={firing.job_state} />),
  },
];

function Firings({ name }: { name: string }) {
  const list = useFirings(name);
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.firings) ?? [], [list.data]);
  return (
    <Read query={list} what="the firings">
      {() => (
        <>
          <Panel title="Last firings" flush>
            <Table
              label="Firings"
              rows={rows}
              columns={COLUMNS}
              rowKey={(firing) => `${firing.instant_ms}-${firing.kind}`}
              height={rows.length > DRAWN_MAX ? "60vh" : undefined}
              empty={<Empty title="It has not fired yet." />}
            />
          </Panel>
          {list.hasNextPage && (
            <div>
              <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
                Read more
              </Button>
            </div>
          )}
        </>
      )}
    </Read>
  );
}

function Misses({ schedule }: { schedule: ScheduleDetails }) {
  if (schedule.missed_instants === 0) return null;
  return (
    <Panel title="Missed">
      <p className="text-dim pb-2">
        {plural(schedule.missed_instants, "instant")} passed without anybody looking. A backfill
        fires those of a range.
      </p>
      <ul className="flex flex-col gap-1" aria-label="Missed">
        {schedule.last_misses.map((miss) => (
          <li key={`${miss.first_instant_ms}-${miss.noted_at_ms}`}>
            {plural(miss.instants, "instant")}: <Clock ms={miss.first_instant_ms} date />
            {miss.instants > 1 && (
              <>
                {" "}
                to <Clock ms={miss.last_instant_ms} date />
              </>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
