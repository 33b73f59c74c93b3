/** What the columns of the table show of a worker. */
import { Link } from "wouter";
import type { Worker } from "../../api/types";
import { count, plural } from "../../parts/format";
import { Mark } from "../../parts/mark";
import { Copy, Nothing, Said } from "../../parts/show";
import { inert, shorten } from "../../parts/text";
import { failuresOf } from "./fleet";
import { Health } from "./health";

const SHOWN_MAX = 3;

export function Who({ worker }: { worker: Worker }) {
  return (
    <div className="flex min-w-28 flex-col wrap-anywhere">
      <span className="flex flex-wrap items-center gap-x-2 font-medium">
        <Said text={worker.name} lengthMax={80} />
        {worker.draining && worker.health !== "lost" && <Mark tone="warn">draining</Mark>}
      </span>
      <span className="text-dim flex items-start font-mono text-xs break-all">
        <bdi>{inert(worker.worker_id)}</bdi>
        <Copy text={worker.worker_id} what="worker id" />
      </span>
      {worker.same_process !== null && (
        <span className="text-dim text-xs break-all">
          one process with{" "}
          <Link href={`/workers?worker=${encodeURIComponent(worker.same_process)}`}>
            <bdi>{inert(worker.same_process)}</bdi>
          </Link>
        </span>
      )}
    </div>
  );
}

export function Condition({ worker }: { worker: Worker }) {
  return (
    <>
      <Health health={worker.health} />
      {worker.health === "failing" && (
        <div className="text-dim text-xs">
          {worker.consecutive_failures > 0
            ? `${plural(worker.consecutive_failures, "failed call")} in a row`
            : "nearly all it runs"}
        </div>
      )}
    </>
  );
}

/** How many of the attempts that ended there within the hour failed, and the way to them. */
export function Failures({ worker }: { worker: Worker }) {
  const { failures, attempts, isBad } = failuresOf(worker);
  if (attempts === 0) return <Nothing />;
  const lost = worker.ended_last_hour.worker_failed;
  return (
    <div className={failures === 0 ? "text-dim" : isBad ? "text-bad font-semibold" : ""}>
      <span className="whitespace-nowrap tabular-nums">
        {count(failures)} of {count(attempts)}
      </span>
      {lost > 0 && <div className="text-xs font-normal">{plural(lost, "lost attempt")}</div>}
    </div>
  );
}

/** How many tasks it holds, and the way to the first of them. */
export function Runs({ worker, isWhole = false }: { worker: Worker; isWhole?: boolean }) {
  if (worker.running === 0) return <span className="text-dim">nothing</span>;
  const shown = worker.running_tasks.slice(0, isWhole ? undefined : SHOWN_MAX);
  const more = worker.running - shown.length;
  return (
    <div>
      <span className="whitespace-nowrap">{plural(worker.running, "task")}</span>
      <div className="flex flex-wrap gap-x-2 font-mono text-xs">
        {shown.map((id) => (
          <Link key={id} href={`/tasks/${id}`}>
            {id}
          </Link>
        ))}
        {more > 0 && <span className="text-dim">and {count(more)} more</span>}
      </div>
    </div>
  );
}

/** The queues it claims from; that it is given work, with what that is decided by. */
export function Serves({ worker, isWhole = false }: { worker: Worker; isWhole?: boolean }) {
  const attributes = Object.entries(worker.attributes).map(([name, value]) => `${name}=${value}`);
  const named = [
    ...worker.queues.map((queue) => ({ queue, name: queue })),
    ...(isWhole ? [] : attributes.map((name) => ({ queue: null, name }))),
  ];
  const shown = named.slice(0, isWhole ? undefined : SHOWN_MAX);
  if (!worker.placed && named.length === 0) return <Nothing />;
  return (
    <div className="flex max-w-48 min-w-20 flex-wrap gap-1 text-xs">
      {worker.placed && <span className="text-sm">placed work</span>}
      {shown.map(({ queue, name }) => (
        <span key={name} className="border-line rounded border px-1.5 break-all">
          {queue === null ? (
            <bdi>{shorten(inert(name), 40)}</bdi>
          ) : (
            <Link href={`/queues?queue=${encodeURIComponent(queue)}`}>
              {shorten(inert(queue), 40)}
            </Link>
          )}
        </span>
      ))}
      {named.length > shown.length && (
        <span className="text-dim">and {named.length - shown.length} more</span>
      )}
    </div>
  );
}
