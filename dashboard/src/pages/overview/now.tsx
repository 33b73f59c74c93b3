/** Where tasks stand now, how they ended within the window, and how the workers do. */
import { Link } from "wouter";
import type { Overview } from "../../api/types";
import { count, stateName } from "../../parts/format";
import { Panel } from "../../parts/page";
import { Badge } from "../../parts/show";
import { HEALTH, Health } from "../workers/health";

const TILES: [name: keyof Overview["tasks"], place: string, meaning: string][] = [
  ["ready", "/queues", "can start now"],
  ["waiting", "/queues", "due later"],
  ["assigned", "/jobs?state=running", "a worker has them"],
  ["building", "/jobs?state=running", "being prepared"],
  ["running", "/jobs?state=running", "at work"],
];

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
  return (
    <Panel
      title="Tasks now"
      aside={tasks.is_estimate && <span className="text-dim text-xs">an estimate</span>}
    >
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-5">
        {TILES.map(([name, place, meaning]) => (
          <div key={name} className="flex min-w-0 flex-col">
            <dt>
              <Link href={place}>{name}</Link>
            </dt>
            <dd className="flex flex-col-reverse">
              <span className="text-dim text-xs">{meaning}</span>
              <span className="text-2xl font-semibold tabular-nums">
                {count(Number(tasks[name]))}
              </span>
            </dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

export function TasksEnded({ ended, window }: { ended: Overview["ended"]; window: string }) {
  const counts = new Map(Object.entries(ended).map(([state, value]) => [stateName(state), value]));
  return (
    <Panel title="Tasks ended" aside={<span className="text-dim text-xs">{window}</span>}>
      <ul className="flex flex-wrap gap-x-5 gap-y-2">
        {ENDED.map((state) => (
          <li key={state}>
            <Link
              href={`/jobs?state=${state}`}
              className="text-ink inline-flex items-center gap-1.5"
            >
              <Badge state={state} />
              <span className="font-semibold tabular-nums">{count(counts.get(state) ?? 0)}</span>
            </Link>
          </li>
        ))}
      </ul>
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
