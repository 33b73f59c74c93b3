/** The dead letters one by one, a page at a time; a row opens to all that is known about it. */
import { useMemo, useState } from "react";
import { Link } from "wouter";
import type { DeadLetter, DeadLetterSummary } from "../../api/types";
import { plural } from "../../parts/format";
import { Empty, Panel, Read } from "../../parts/page";
import { Ago, Id, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { Actions } from "./actions";
import { describe, Filters, lettersAddress, type useLettersPlace } from "./filter";
import { Fate, Inspect, InspectOne, isSettled, jobOf, moment } from "./inspect";
import { useLetters } from "./reads";

type Group = DeadLetterSummary["groups"][number];

const COLUMNS: Column<DeadLetter>[] = [
  {
    id: "task",
    title: "Task",
    cell: ({ task_id: id }) => <Id id={id} to={`/tasks/${id}`} />,
    sort: ({ task_id: id }) => Number(jobOf(id)),
  },
  {
    id: "type",
    title: "Type",
    sort: (letter) => letter.type,
    cell: (letter) => (
      <div className="w-max max-w-40 wrap-anywhere sm:max-w-64">
        <Said text={letter.type} lengthMax={60} />
        <span className="text-dim block text-xs whitespace-nowrap sm:hidden">
          {letter.reason_code}
        </span>
      </div>
    ),
  },
  {
    id: "queue",
    title: "Queue",
    className: "hidden xl:table-cell",
    sort: (letter) => letter.queue ?? "",
    cell: (letter) => (
      <div className="w-max max-w-40 wrap-anywhere">
        <Said text={letter.queue ?? "-"} lengthMax={100} />
      </div>
    ),
  },
  {
    id: "reason",
    title: "Reason",
    className: "hidden sm:table-cell",
    sort: (letter) => `${letter.reason_code} ${letter.stage ?? ""}`,
    cell: (letter) => (
      <>
        {letter.reason_code}
        {letter.stage !== null && <span className="text-dim block text-xs">{letter.stage}</span>}
      </>
    ),
  },
  {
    id: "error",
    title: "Last error",
    className: "w-full hidden lg:table-cell",
    sort: (letter) => (letter.last_error ?? "").trimStart(),
    cell: (letter) => (
      <>
        <span className="line-clamp-2 wrap-anywhere">
          <Said
            text={(letter.last_error ?? "").trimStart().split("\n")[0] || "-"}
            lengthMax={300}
          />
        </span>
        {isSettled(letter) && (
          <span className="text-dim block text-xs">
            <Fate letter={letter} />
          </span>
        )}
      </>
    ),
  },
  {
    id: "attempts",
    title: "Attempts",
    className: "hidden lg:table-cell text-right",
    sort: (letter) => letter.attempts,
    cell: (letter) => letter.attempts,
  },
  {
    id: "when",
    title: "Dead since",
    className: "pl-0 pr-2 sm:px-3",
    sort: (letter) => moment(letter.dead_lettered_at) ?? 0,
    cell: (letter) => <Ago ms={moment(letter.dead_lettered_at)} />,
  },
];

export function LetterList({
  place,
  change,
  groups,
}: {
  place: ReturnType<typeof useLettersPlace>[0];
  change: ReturnType<typeof useLettersPlace>[1];
  groups: DeadLetterSummary["groups"];
}) {
  const { page: _page, task, order, ...filter } = place;
  const query = useLetters(filter, order, place.page);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const opened = useMemo(() => new Set(task === "" ? [] : [task]), [task]);
  const rows = query.data?.dead_letters ?? [];
  const isElsewhere =
    task !== "" && query.data !== undefined && !rows.some((row) => row.task_id === task);
  const chosen = rows
    .filter((row) => selected.has(row.task_id) && !isSettled(row))
    .map((row) => row.task_id);
  const words = describe(filter);
  return (
    <>
      {isElsewhere && (
        <Panel
          title={`Dead letter ${task}`}
          aside={
            <button type="button" className="text-accent" onClick={() => change({ task: "" })}>
              Close
            </button>
          }
        >
          <InspectOne taskId={task} />
        </Panel>
      )}
      <Panel
        title="Dead letters"
        aside={<Order order={order} onChange={(chosen) => change({ order: chosen, page: "" })} />}
        flush
      >
        <div className="border-line flex flex-col gap-3 border-b p-3">
          <Filters place={place} onChange={change} />
          {place.group !== "" && (
            <Alike
              group={groups.find(({ fingerprint }) => fingerprint === place.group)}
              onClear={() => change({ group: "", page: "", task: "" })}
            />
          )}
          <div className="flex flex-wrap items-center gap-2" role="group" aria-label="What to do">
            <span className="text-dim min-w-full sm:min-w-0">
              {chosen.length > 0
                ? `${plural(chosen.length, "dead letter")} selected:`
                : words === "all"
                  ? "All of them:"
                  : "All that match:"}
            </span>
            <Actions
              chosen={
                chosen.length > 0
                  ? { words: plural(chosen.length, "selected dead letter"), taskIds: chosen }
                  : {
                      words: words === "all" ? "all dead letters" : `all dead letters: ${words}`,
                      filter,
                    }
              }
              onDone={() => setSelected(new Set())}
            />
          </div>
        </div>
        <Read query={query} what="dead letters">
          {(read) => (
            <>
              <Table
                label="Dead letters"
                rows={read.dead_letters}
                columns={COLUMNS}
                rowKey={(row) => row.task_id}
                detail={(row) => <Inspect letter={row} />}
                opened={opened}
                onOpened={(after) => change({ task: [...after].find((id) => id !== task) ?? "" })}
                selected={selected}
                onSelect={setSelected}
                empty={
                  <Empty title="No dead letters match.">
                    <Link href="/dead-letters">Show all</Link>
                  </Empty>
                }
              />
              <Pager place={place} next={read.next_page_token} />
            </>
          )}
        </Read>
      </Panel>
    </>
  );
}

/** All of them are read in this order, page by page; a click on a title sorts the page that is shown. */
function Order({ order, onChange }: { order: string; onChange: (order: string) => void }) {
  return (
    <label className="text-dim flex items-center gap-2 text-xs">
      Order
      <select
        value={order === "newest" ? order : ""}
        onChange={(event) => onChange(event.target.value)}
        className="border-line bg-panel text-ink rounded-md border px-2 py-1"
      >
        <option value="">the oldest job first</option>
        <option value="newest">the newest dead letter first</option>
      </select>
    </label>
  );
}

/** The kind of error that the list is about, while a group of them is open. */
function Alike({ group, onClear }: { group: Group | undefined; onClear: () => void }) {
  return (
    <p className="flex min-w-0 flex-wrap items-baseline gap-x-2">
      <span className="text-dim">Only errors like</span>
      <span className="min-w-0 font-medium">
        <Said
          text={group?.example ?? group?.error_class ?? "one that has none left"}
          lengthMax={200}
        />
      </span>
      <button type="button" className="text-accent" onClick={onClear}>
        Show the others, too
      </button>
    </p>
  );
}

function Pager({
  place,
  next,
}: {
  place: ReturnType<typeof useLettersPlace>[0];
  next: string | null;
}) {
  if (place.page === "" && next === null) return null;
  return (
    <nav aria-label="Pages of the list" className="border-line flex gap-4 border-t px-3 py-2">
      {place.page !== "" && (
        <Link href={lettersAddress(place, { group: place.group })}>First page</Link>
      )}
      {next !== null && (
        <Link href={lettersAddress(place, { group: place.group, page: next })}>Next page</Link>
      )}
    </nav>
  );
}
