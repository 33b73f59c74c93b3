/** The dead letters one by one, a page at a time; a row opens to all that is known about it. */
import { useMemo, useState } from "react";
import { Link } from "wouter";
import type { DeadLetter } from "../../api/types";
import { plural } from "../../parts/format";
import { Empty, Panel, Read } from "../../parts/page";
import { Ago, Id, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { Actions } from "./actions";
import { describe, Filters, lettersAddress, type useLettersPlace } from "./filter";
import { Fate, Inspect, InspectOne, isSettled, moment } from "./inspect";
import { useLetters } from "./reads";

const COLUMNS: Column<DeadLetter>[] = [
  {
    id: "task",
    title: "Task",
    cell: ({ task_id: id }) => <Id id={id} to={`/tasks/${id}`} />,
  },
  {
    id: "type",
    title: "Type",
    className: "sm:whitespace-nowrap",
    cell: (letter) => (
      <>
        <Said text={letter.type} lengthMax={60} />
        <span className="text-dim block text-xs whitespace-nowrap sm:hidden">
          {letter.reason_code}
        </span>
      </>
    ),
  },
  {
    id: "queue",
    title: "Queue",
    className: "hidden xl:table-cell",
    cell: (letter) => <Said text={letter.queue ?? "-"} lengthMax={100} />,
  },
  {
    id: "reason",
    title: "Reason",
    className: "hidden sm:table-cell",
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
    cell: (letter) => (
      <>
        <span className="line-clamp-2 break-words">
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
    cell: (letter) => letter.attempts,
  },
  {
    id: "when",
    title: "Dead since",
    className: "pl-0 pr-2 sm:px-3",
    cell: (letter) => <Ago ms={moment(letter.dead_lettered_at)} />,
  },
];

export function LetterList({
  place,
  change,
}: {
  place: ReturnType<typeof useLettersPlace>[0];
  change: ReturnType<typeof useLettersPlace>[1];
}) {
  const { page: _page, task, group: _group, ...filter } = place;
  const query = useLetters(filter, place.page);
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
        aside={<span className="text-dim text-xs">the oldest job first</span>}
        flush
      >
        <div className="border-line flex flex-col gap-3 border-b p-3">
          <Filters place={place} onChange={change} />
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
      {place.page !== "" && <Link href={lettersAddress(place, {})}>First page</Link>}
      {next !== null && <Link href={lettersAddress(place, { page: next })}>Next page</Link>}
    </nav>
  );
}
