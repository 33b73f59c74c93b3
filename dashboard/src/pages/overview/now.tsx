/** Where tasks stand now, how they ended within the window, and how the workers do. */
import { Link } from "wouter";
import type { Overview } from "../../api/types";
import { count, plural, stateName } from "../../parts/format";
import { Panel } from "../../parts/page";
import { Badge } from "../../parts/show";
import { HEALTH, Health } from "../workers/health";

/** Each leads to where what it counts is shown; the jobs of what never fits stand above, by name. */
const TILES: [name: keyof Overview["tasks"], place: string | null, meaning: string][] = [
  ["ready", "/queues", "can start now"],
  ["paused", "/queues", "in a paused queue"],
  ["unserved", "/queues", "no worker serves them"],
  ["never_fits", null, "fit no worker, see above"],
  ["gated", "/limits", "wait for a limit"],
  ["awaiting_signal", "/jobs?state=pending", "wait for a signal"],
  ["waiting", "/queues", "due later"],
  ["assigned", "/jobs?state=running", "a worker has them"],
  ["building", "/jobs?state=running", "being prepared"],
  ["running", "/jobs?state=running", "at work"],
];

/** What stands in line and cannot start: shown if there is any. */
const BLOCKED: string[] = ["paused", "unserved", "never_fits"];

/** What waits beside the line: shown if there is any. */
const BESIDE: string[] = ["gated", "awaiting_signal"];

/** In the order in which people ask for them. */
const ENDED = [
  "succeeded",
  "failed",
  "dead_lettered",
  "worker_failed",
  "killed",
  "unschedulable",
] as const;

export function TasksNow({ tasks }: { tasks: Overview["tasks"] }) {
  const rare = [...BLOCKED, ...BESIDE];
  const tiles = TILES.filter(([name]) => !rare.includes(name) || Number(tasks[name]) > 0);
  return (
    <Panel
      title="Tasks now"
      aside={tasks.is_estimate && <span className="text-dim text-xs">an estimate</span>}
    >
      <dl className="grid grid-cols-2 gap-3 sm:flex sm:flex-wrap">
        {tiles.map(([name, place, meaning]) => (
          <div key={name} className="flex min-w-0 flex-1 flex-col sm:min-w-28">
            <dt>
              {place === null ? (
                name.replace("_", " ")
              ) : (
                <Link href={place}>{name.replace("_", " ")}</Link>
              )}
            </dt>
            <dd className="flex flex-col-reverse">
              <span className="text-dim text-xs">{meaning}</span>
              <span
                className={`text-2xl font-semibold tabular-nums ${BLOCKED.includes(name) ? "text-warn" : ""}`}
              >
                {count(Number(tasks[name]))}
              </span>
            </dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

/** Ends, each counted once. No list of jobs has exactly these: an attempt that failed may be tried again. */
export function Ended({ overview, window }: { overview: Overview; window: string }) {
  const { ended, series } = overview;
  const counts = new Map(Object.entries(ended).map(([state, value]) => [stateName(state), value]));
  const retried = series.retried.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  return (
    <Panel title="Ended" aside={<span className="text-dim text-xs">{window}</span>}>
      <ul className="flex flex-wrap gap-x-5 gap-y-2">
        {ENDED.map((state) => (
          <li key={state} className="inline-flex items-center gap-1.5">
            <Badge state={state} />
            <span className="font-semibold tabular-nums">{count(counts.get(state) ?? 0)}</span>
          </li>
        ))}
      </ul>
      <p className="text-dim mt-2 text-xs">
        {plural(retried, "attempt")} of these {retried === 1 ? "was" : "were"} tried again.
      </p>
    </Panel>
  );
}

export function WorkersNow({ workers }: { workers: Overview["workers"] }) {
  return (
    <Panel title="Workers">
      <ul className="flex flex-wrap gap-x-5 gap-y-2">
        {HEALTH.map((health) => (
          <li key={health}>
            <Link
              href={`/workers?health=${health}`}
              className="text-ink inline-flex items-center gap-1.5"
            >
              <Health health={health} />
              <span className="font-semibold tabular-nums">{count(workers[health] ?? 0)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
