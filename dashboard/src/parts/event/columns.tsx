/** What a row of a list of events shows, and what more when it is opened. */
import { Link } from "wouter";
import type { Event } from "../../api/types";
import { absolute, clock, dateTime } from "../format";
import { Block, Fact, Facts, Id, Nothing, Said } from "../show";
import type { Column } from "../table";
import { pretty } from "../text";

function timeColumn(isDated: boolean): Column<Event> {
  return {
    id: "time",
    title: "Time",
    width: isDated ? "11.5rem" : "7rem",
    cell: ({ ts }) => (
      <time dateTime={ts} title={absolute(Date.parse(ts))} className="whitespace-nowrap">
        {isDated ? dateTime(Date.parse(ts)) : clock(Date.parse(ts))}
        <span className="text-dim">.{String(Date.parse(ts) % 1000).padStart(3, "0")}</span>
      </time>
    ),
  };
}

const COLUMNS: Column<Event>[] = [
  { id: "type", title: "Type", width: "9rem", cell: (event) => event.type },
  {
    id: "task",
    title: "Task",
    width: "7rem",
    cell: ({ job_id: job, task_index: index }) =>
      index < 0 ? (
        <span className="text-dim">the job</span>
      ) : (
        <Link href={`/tasks/${job}.${index}`} className="font-mono text-[0.8125rem]">
          {job}.{index}
        </Link>
      ),
  },
  {
    id: "attempt",
    title: "Attempt",
    width: "5rem",
    cell: ({ job_id: job, task_index: index, attempt }) =>
      index < 0 || attempt < 0 ? (
        <Nothing />
      ) : (
        <Link href={`/tasks/${job}.${index}?tab=logs&attempt=${attempt}`}>{attempt}</Link>
      ),
  },
  {
    id: "actor",
    title: "Actor",
    width: "14rem",
    cell: ({ actor }) => (actor == null ? <Nothing /> : <Said text={actor} lengthMax={80} />),
  },
  {
    id: "cause",
    title: "Cause",
    cell: (event) => {
      const text = event.cause ?? wordsOf(event);
      return text == null ? <Nothing /> : <Said text={text} lengthMax={120} />;
    },
  },
];

/** What user code has to say about an event of its own. */
function wordsOf({ type, payload }: Event): string | null {
  return type.startsWith("user:") && payload != null ? JSON.stringify(payload) : null;
}

/** Of a job or of a task; with the date where not all of it was today. */
export function columnsOf(kind: "job" | "task", isDated: boolean): Column<Event>[] {
  const rest = COLUMNS.filter((column) => kind === "job" || column.id !== "task");
  return [timeColumn(isDated), ...rest];
}

export function EventDetail({ event }: { event: Event }) {
  return (
    <div className="flex flex-col gap-3">
      <Facts>
        <Fact name="Event">
          {event.id},{" "}
          {event.seq < 0
            ? "a note beside the log"
            : `number ${event.seq} of its ${event.task_index < 0 ? "job" : "task"}`}
        </Fact>
        <Fact name="Time">{absolute(Date.parse(event.ts))}</Fact>
        <Fact name="Correlation">
          <Id id={event.correlation_id} what="correlation id" />
        </Fact>
        <Fact name="Trace">
          {event.trace_id == null ? <Nothing /> : <Id id={event.trace_id} what="trace id" />}
        </Fact>
        <Fact name="Actor">{event.actor == null ? <Nothing /> : <Said text={event.actor} />}</Fact>
        <Fact name="Cause">{event.cause == null ? <Nothing /> : <Said text={event.cause} />}</Fact>
      </Facts>
      {event.payload == null ? (
        <p className="text-dim">It has no payload.</p>
      ) : (
        <Block text={pretty(event.payload)} label={`Payload of event ${event.id}`} />
      )}
    </div>
  );
}
