/** What has ended on a worker, the newest first: which task, how it ended, and what it said. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { Read } from "../../parts/page";
import { Ago, Badge, Said, Took } from "../../parts/show";

const READ_AGAIN_MS = 5000;
const SHOWN_MAX = 20;

type Ended = components["schemas"]["WorkerAttempt"];

export function RecentAttempts({ workerId }: { workerId: string }) {
  const [isAll, setIsAll] = useState(true);
  const query = useQuery({
    queryKey: ["workers", "attempts", workerId, isAll],
    queryFn: ({ signal }) => {
      const asked = { worker: workerId, unsuccessful: !isAll, page_size: SHOWN_MAX };
      return unwrap(api.GET("/api/attempts", { params: { query: asked }, signal }));
    },
    placeholderData: keepPreviousData,
    refetchInterval: READ_AGAIN_MS,
  });
  return (
    <section aria-label={`What ended on ${workerId}`} className="flex flex-col gap-1">
      <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1">
        <h3 className="text-dim text-xs">The last {SHOWN_MAX} attempts that ended here</h3>
        <label className="flex items-center gap-2 text-xs">
          <input
            type="checkbox"
            checked={!isAll}
            onChange={(event) => setIsAll(!event.target.checked)}
          />
          only unsuccessful
        </label>
        <Link href={`/jobs?worker=${encodeURIComponent(workerId)}`} className="text-xs">
          Jobs that it has run
        </Link>
      </div>
      <Read query={query} what="attempts">
        {({ attempts }) =>
          attempts.length === 0 ? (
            <p className="text-dim">None{isAll ? "" : " among those that were looked through"}.</p>
          ) : (
            <AttemptRows attempts={attempts} />
          )
        }
      </Read>
    </section>
  );
}

function AttemptRows({ attempts }: { attempts: Ended[] }) {
  return (
    <div className="max-h-96 overflow-auto" tabIndex={0} role="region" aria-label="Attempts">
      <table aria-label="Attempts that ended here" className="w-full text-left">
        <tbody>
          {attempts.map((one) => (
            <tr
              key={`${one.task_id}.${one.attempt_id}`}
              className="border-line border-t align-baseline"
            >
              <td className="py-1 pr-3 font-mono text-xs whitespace-nowrap">
                <Link href={`/tasks/${one.task_id}?tab=logs&attempt=${one.attempt_id}`}>
                  {one.task_id}.{one.attempt_id}
                </Link>
              </td>
              <td className="py-1 pr-3">
                <Badge state={one.state} />
              </td>
              <td className="hidden min-w-40 py-1 pr-3 sm:table-cell">
                <Link href={`/jobs/${one.job_id}`}>
                  <Said text={one.job_name} lengthMax={60} />
                </Link>
              </td>
              <td className="w-full py-1 pr-3">
                <span className="line-clamp-1 break-all" title={one.error ?? undefined}>
                  <Said text={(one.error ?? "").trim().split("\n", 1)[0] ?? ""} lengthMax={200} />
                </span>
              </td>
              <td className="hidden py-1 pr-3 text-right sm:table-cell">
                <Took from={one.started_at_ms ?? one.created_at_ms} to={one.finished_at_ms} />
              </td>
              <td className="py-1 text-right">
                <Ago ms={one.finished_at_ms} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
