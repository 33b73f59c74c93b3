/** The page that people keep open: what needs attention, how things stand, how they went. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Overview } from "../../api/types";
import { Loading, Page, Read } from "../../parts/page";
import { useParam } from "../../parts/params";
import { AttentionList } from "./attention";
import { Charts } from "./charts";
import { Ended, TasksNow, WorkersNow } from "./now";
import { Start } from "./start";
import { TypesOfTheHour } from "./types";

const READ_AGAIN_MS = 5000;
const HOUR = 3600;

const WINDOWS: Record<string, [seconds: number, name: string, within: string]> = {
  "10m": [HOUR / 6, "10 min", "within the last 10 minutes"],
  "1h": [HOUR, "1 h", "within the last hour"],
  "6h": [6 * HOUR, "6 h", "within the last 6 hours"],
  "24h": [24 * HOUR, "24 h", "within the last 24 hours"],
  "7d": [7 * 24 * HOUR, "7 d", "within the last 7 days"],
};

export default function OverviewPage() {
  const [chosen, choose] = useParam("window", "1h");
  const window = chosen in WINDOWS ? chosen : "1h";
  const [seconds] = WINDOWS[window] ?? [HOUR];
  const query = useQuery({
    queryKey: ["overview", seconds],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/overview", { params: { query: { window_seconds: seconds } }, signal })),
    refetchInterval: READ_AGAIN_MS,
    placeholderData: keepPreviousData,
  });
  const isEmpty = useIsEmpty(query.data);
  return (
    <Page
      title="Overview"
      actions={isEmpty !== false ? undefined : <WindowChoice window={window} choose={choose} />}
    >
      <Read query={query} what="the overview">
        {(overview) =>
          isEmpty === null ? (
            <Loading what="the jobs" />
          ) : isEmpty ? (
            <Start workers={(overview.workers.healthy ?? 0) + (overview.workers.failing ?? 0)} />
          ) : (
            <>
              <AttentionList attention={overview.attention} />
              <TasksNow tasks={overview.tasks} />
              <div className="grid gap-4 lg:grid-cols-2">
                <Ended overview={overview} window={withinOf(overview)} />
                <WorkersNow workers={overview.workers} />
              </div>
              <Charts overview={overview} />
              <TypesOfTheHour />
            </>
          )
        }
      </Read>
    </Page>
  );
}

/** By what was read, which after another choice is for a moment not what was chosen. */
function withinOf({ window_seconds: seconds }: Overview): string {
  return Object.values(WINDOWS).find(([length]) => length === seconds)?.[2] ?? "";
}

function WindowChoice({ window, choose }: { window: string; choose: (window: string) => void }) {
  return (
    <div
      role="group"
      aria-label="How far back"
      className="border-line flex overflow-hidden rounded-md border"
    >
      {Object.entries(WINDOWS).map(([id, [, name]]) => (
        <button
          key={id}
          type="button"
          aria-pressed={id === window}
          onClick={() => choose(id)}
          className={`border-line border-r px-3 py-1 last:border-r-0 ${id === window ? "bg-accent-soft text-ink font-semibold" : "bg-panel text-dim hover:bg-hover hover:text-ink"}`}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

/** Whether there has never been a job; asked only while nothing else shows that there was one. */
function useIsEmpty(overview: Overview | undefined): boolean | null {
  const isQuiet = overview !== undefined && isIdle(overview);
  const jobs = useQuery({
    queryKey: ["jobs", "any"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/jobs", { params: { query: { page_size: 1 } }, signal })),
    enabled: isQuiet,
  });
  if (!isQuiet) return false;
  return jobs.isPending ? null : jobs.data?.jobs.length === 0;
}

function isIdle({ tasks, ended, attention }: Overview): boolean {
  const { is_estimate: _, ...live } = tasks;
  const moved = [...Object.values(live), ...Object.values(ended)];
  return attention.length === 0 && moved.every((value) => value === 0);
}
