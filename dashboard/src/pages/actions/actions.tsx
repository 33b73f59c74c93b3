/** What people have done, the newest first: who, what, to what, and why. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { api, unwrap } from "../../api/client";
import type { Action } from "../../api/types";
import { Empty, Page, Panel } from "../../parts/page";
import { useParam } from "../../parts/params";
import { ReadPages } from "../../parts/read_pages";
import { Clock, Nothing, Said } from "../../parts/show";
import { type Column, Table } from "../../parts/table";
import { inert, shorten } from "../../parts/text";

const READ_AGAIN_MS = 10_000;
const PAGE_SIZE = 100;
const LOOK = "border-line bg-page rounded-md border px-2 py-1";
const ACTIONS: Record<string, string> = {
  cancel: "cancelled",
  dead_letter: "dead-lettered",
  replay: "replayed",
  discard: "discarded dead letters of",
  rerun: "reran",
  resume: "resumed",
  pause_queue: "paused",
  resume_queue: "resumed",
  set_shares: "set the shares of",
  unset_shares: "took back the shares of",
  drain_worker: "drained",
  set_policy: "set the policy of",
  unset_policy: "took back the policy of",
  cut_over: "cut over",
  drop_version: "dropped a version of",
  put_trigger: "set a trigger of",
  delete_trigger: "removed a trigger of",
  create_token: "made",
  rotate_token: "rotated",
  revoke_token: "revoked",
  put_limit: "set",
  delete_limit: "deleted",
  declare_schedule: "declared",
  retire_schedule: "retired",
  set_schedule: "set",
  delete_schedule: "deleted",
  pause_schedule: "paused",
  resume_schedule: "resumed",
  run_schedule: "ran",
  backfill_schedule: "backfilled",
  signal: "sent a signal to",
  let_pass: "let the chain go on after",
};

const COLUMNS: Column<Action>[] = [
  {
    id: "when",
    title: "When",
    className: "max-lg:[&_time]:whitespace-normal",
    cell: (done) => <Clock ms={done.at_ms} date />,
  },
  {
    id: "who",
    title: "Who",
    className: "wrap-anywhere",
    cell: (done) => (
      <Link href={`/actions?actor=${encodeURIComponent(done.actor)}`}>
        <Said text={done.actor} lengthMax={100} />
      </Link>
    ),
  },
  {
    id: "what",
    title: "Did",
    className: "wrap-anywhere",
    cell: (done) => (
      <>
        {ACTIONS[done.action] ?? inert(done.action)} <Subject done={done} />
        <Facts facts={done.facts} />
        {done.reason !== null && (
          <span className="block text-xs sm:hidden">
            <Said text={done.reason} />
          </span>
        )}
      </>
    ),
  },
  {
    id: "why",
    title: "Reason",
    className: "hidden sm:table-cell w-2/5 wrap-anywhere",
    cell: (done) => (done.reason === null ? <Nothing /> : <Said text={done.reason} />),
  },
];

export default function ActionsPage() {
  const [actor, setActor] = useParam("actor", "", { replace: true });
  const [action, setAction] = useParam("action");
  const [subject, setSubject] = useParam("subject");
  const query = useInfiniteQuery({
    queryKey: ["actions", actor, action, subject],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/api/actions", {
          params: {
            query: {
              page_size: PAGE_SIZE,
              ...(pageParam !== "" && { page_token: pageParam }),
              ...(actor !== "" && { actor }),
              ...(action !== "" && { action }),
              ...(subject !== "" && { subject }),
            },
          },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token,
    refetchInterval: (read) => (read.state.data?.pages.length === 1 ? READ_AGAIN_MS : false),
  });
  const isFiltered = actor !== "" || action !== "" || subject !== "";
  return (
    <Page title="Actions">
      <div role="search" aria-label="Actions" className="flex flex-wrap items-center gap-3">
        <input
          type="search"
          aria-label="Who"
          placeholder="Who, the whole name"
          // A name matches nothing while half typed.
          key={actor}
          defaultValue={actor}
          onBlur={(event) => setActor(event.currentTarget.value.trim())}
          onKeyDown={(event) => event.key === "Enter" && setActor(event.currentTarget.value.trim())}
          className={`${LOOK} placeholder:text-dim w-full sm:w-60`}
        />
        <label className="flex items-center gap-2">
          <span className="text-dim">Did</span>
          <select
            value={action}
            onChange={(event) => setAction(event.target.value)}
            className={LOOK}
          >
            <option value="">anything</option>
            {Object.keys(ACTIONS).map((one) => (
              <option key={one} value={one}>
                {one.replaceAll("_", " ")}
              </option>
            ))}
          </select>
        </label>
        {subject !== "" && (
          <button type="button" className={LOOK} onClick={() => setSubject("")}>
            To <Said text={subject} lengthMax={60} /> ✕
          </button>
        )}
      </div>
      <Panel flush>
        <ReadPages query={query} what="what people did">
          {(pages) => (
            <Table
              label="Actions"
              rows={pages.flatMap((page) => page.actions)}
              columns={COLUMNS}
              rowKey={(row) => String(row.id)}
              empty={
                <Empty title={isFiltered ? "Nobody did that." : "Nobody has done anything yet."}>
                  <p>Cancels, replays, pauses, cut-overs and changes of policies appear here.</p>
                </Empty>
              }
            />
          )}
        </ReadPages>
      </Panel>
    </Page>
  );
}

function Subject({ done }: { done: Action }) {
  const { subject_kind: kind, subject } = done;
  const name = shorten(inert(subject), 120);
  const place = PLACES[kind]?.(encodeURIComponent(subject));
  return (
    <>
      {kind}{" "}
      {place === undefined ? (
        <bdi>{name}</bdi>
      ) : (
        <Link href={place} className="underline">
          {name}
        </Link>
      )}
    </>
  );
}

const PLACES: Record<string, (name: string) => string> = {
  job: (name) => `/jobs/${name}`,
  task: (name) => `/tasks/${name}`,
  queue: (name) => `/queues?queue=${name}`,
  worker: (name) => `/workers?worker=${name}&lost=shown`,
  dataset: (name) => `/datasets/${name}`,
};

function Facts({ facts }: { facts: unknown }): ReactNode {
  if (typeof facts !== "object" || facts === null) return null;
  const known = Object.entries(facts).filter(([, value]) => value !== null && value !== false);
  if (known.length === 0) return null;
  return (
    <span className="text-dim block text-xs">
      {known.map(([name, value], place) => (
        <span key={name}>
          {place > 0 && ", "}
          {name === "job_ids" && Array.isArray(value) ? (
            <Jobs ids={value.map(String)} />
          ) : (
            `${name.replaceAll("_", " ")} ${shorten(inert(String(value)), 120)}`
          )}
        </span>
      ))}
    </span>
  );
}

function Jobs({ ids }: { ids: string[] }) {
  return (
    <>
      as{" "}
      {ids.map((id, place) => (
        <span key={id}>
          {place > 0 && ", "}
          <Link href={`/jobs/${encodeURIComponent(id)}`} className="underline">
            job {inert(id)}
          </Link>
        </span>
      ))}
    </>
  );
}
