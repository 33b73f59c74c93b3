/** The attempts of a task: where each ran, how it ended, and what it said about that. */
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { Attempt } from "../api/types";
import { bytes, count, duration } from "./format";
import { Badge, Block, Clock, Fact, Facts, Nothing, Said, Took } from "./show";

const COLUMNS = ["Attempt", "Worker", "State", "Started", "Finished", "Took", "Exit code", "Error"];

export function AttemptTable({
  taskId,
  attempts,
  currentId,
}: {
  taskId: string;
  attempts: Attempt[];
  currentId: number;
}) {
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  if (attempts.length === 0) {
    return <p className="text-dim px-3 py-3">It has not been tried yet.</p>;
  }
  function toggle(id: number) {
    const after = new Set(opened);
    if (!after.delete(id)) after.add(id);
    setOpened(after);
  }
  return (
    <div className="min-w-0">
      <div
        className="overflow-x-auto"
        role="region"
        aria-label={`Attempts of task ${taskId}, scrolled`}
        tabIndex={0}
      >
        <table aria-label={`Attempts of task ${taskId}`} className="w-full text-left">
          <thead className="text-dim text-xs">
            <tr className="border-line border-b">
              {COLUMNS.map((title) => (
                <th key={title} scope="col" className="px-3 py-2 font-medium whitespace-nowrap">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          {attempts.map((attempt) => (
            <AttemptRow
              key={attempt.attempt_id}
              taskId={taskId}
              attempt={attempt}
              isCurrent={attempt.attempt_id === currentId}
              isOpened={opened.has(attempt.attempt_id)}
              onToggle={() => toggle(attempt.attempt_id)}
            />
          ))}
        </table>
      </div>
      <AttemptErrors attempts={attempts} />
    </div>
  );
}

function AttemptRow({
  taskId,
  attempt,
  isCurrent,
  isOpened,
  onToggle,
}: {
  taskId: string;
  attempt: Attempt;
  isCurrent: boolean;
  isOpened: boolean;
  onToggle: () => void;
}) {
  const id = attempt.attempt_id;
  const began = attempt.started_at_ms ?? attempt.created_at_ms;
  return (
    <tbody className="border-line border-b last:border-b-0">
      <tr className="hover:bg-hover">
        <Cell>
          <button
            type="button"
            aria-expanded={isOpened}
            aria-label={`${isOpened ? "Close" : "Open"} attempt ${id}`}
            onClick={onToggle}
            className="text-dim mr-1 w-4"
          >
            {isOpened ? "▾" : "▸"}
          </button>
          {isCurrent ? `${id} (curr)` : id}
        </Cell>
        <Cell wrapped="max-w-56 min-w-24 break-all">
          <Link href={`/workers?worker=${encodeURIComponent(attempt.worker_id)}`}>
            <Said text={attempt.worker_id} />
          </Link>
        </Cell>
        <Cell wrapped="min-w-28">
          <Badge state={attempt.state} />
          {attempt.is_worker_failure && <span className="text-dim ml-1">(worker failure)</span>}
          {attempt.is_orphaned && <span className="text-warn ml-1">(orphaned)</span>}
        </Cell>
        <Cell wrapped={MOMENT}>
          {attempt.started_at_ms == null ? (
            <span className="text-dim">
              not started; created <Clock ms={attempt.created_at_ms} />
            </span>
          ) : (
            <Clock ms={attempt.started_at_ms} />
          )}
        </Cell>
        <Cell wrapped={MOMENT}>
          <Clock ms={attempt.finished_at_ms} />
        </Cell>
        <Cell>
          <Took from={began} to={attempt.finished_at_ms} />
        </Cell>
        <Cell>{attempt.exit_code ?? <Nothing />}</Cell>
        <Cell wrapped="min-w-28 wrap-anywhere">
          {attempt.error_class == null ? (
            <Nothing />
          ) : (
            <>
              <Said text={attempt.error_class} />
              {attempt.stage != null && <span className="text-dim"> in {attempt.stage}</span>}
            </>
          )}
        </Cell>
      </tr>
      {isOpened && (
        <tr>
          <td colSpan={COLUMNS.length} className="bg-page px-4 py-3">
            {/* On a phone the table is scrolled sideways; what is opened stays in sight. */}
            <div className="max-sm:sticky max-sm:left-4 max-sm:w-[calc(100vw-5rem)] max-xl:[&_time]:whitespace-normal">
              <AttemptDetail taskId={taskId} attempt={attempt} />
            </div>
          </td>
        </tr>
      )}
    </tbody>
  );
}

/** A clock, and below it how long ago that was: so that eight columns have room. */
const MOMENT = "[&_time_span]:block";

function Cell({ wrapped, children }: { wrapped?: string; children: ReactNode }) {
  return <td className={`px-3 py-2 align-top ${wrapped ?? "whitespace-nowrap"}`}>{children}</td>;
}

function AttemptDetail({ taskId, attempt }: { taskId: string; attempt: Attempt }) {
  const ports = Object.entries(attempt.ports);
  return (
    <Facts>
      <Fact name="Created">
        <Clock ms={attempt.created_at_ms} date />
      </Fact>
      <Fact name="Started">
        <Clock ms={attempt.started_at_ms} date />
      </Fact>
      <Fact name="Finished">
        <Clock ms={attempt.finished_at_ms} date />
      </Fact>
      <Fact name="Let go by its worker">
        <Clock ms={attempt.released_at_ms} date />
      </Fact>
      <Fact name="Ports">
        {ports.length === 0 ? (
          <Nothing />
        ) : (
          ports.map(([name, port]) => (
            <div key={name}>
              <Said text={name} /> <span className="font-mono">{port}</span>
            </div>
          ))
        )}
      </Fact>
      <Fact name="Devices">
        {attempt.devices.length === 0 ? (
          <Nothing />
        ) : (
          <span className="font-mono">{attempt.devices.join(" ")}</span>
        )}
      </Fact>
      <Usage usage={attempt.usage} />
      <Build build={attempt.build} />
      <Fact name="Output">
        <Link href={`/tasks/${taskId}?tab=logs&attempt=${attempt.attempt_id}`}>
          Log of attempt {attempt.attempt_id}
        </Link>
      </Fact>
    </Facts>
  );
}

export function Usage({ usage }: { usage: Attempt["usage"] }) {
  if (usage == null) {
    return (
      <Fact name="Used">
        <Nothing />
      </Fact>
    );
  }
  const { cpu_seconds: cpu, memory_peak_bytes: memory, processes_max: processes } = usage;
  return (
    <Fact name="Used">
      <Part name="CPU" told={cpu == null ? null : duration(cpu * 1000)} />
      <Part name="memory, at most" told={memory == null ? null : bytes(memory)} />
      <Part name="processes, at most" told={processes == null ? null : count(processes)} />
      <Part name="limited by" told={usage.limits} />
    </Fact>
  );
}

function Build({ build }: { build: Attempt["build"] }) {
  if (build == null) {
    return (
      <Fact name="Made ready">
        <Nothing />
      </Fact>
    );
  }
  const took = (ms: number | null | undefined) => (ms == null ? null : duration(ms));
  const kept = (isKept: boolean | null | undefined) =>
    isKept == null ? null : isKept ? "was there" : "was fetched";
  return (
    <Fact name="Made ready">
      <Part name="bundle" told={kept(build.bundle_cached)} />
      <Part name="size" told={build.bytes == null ? null : bytes(build.bytes)} />
      <Part name="fetched in" told={took(build.fetch_ms)} />
      <Part name="unpacked in" told={took(build.unpack_ms)} />
      <Part name="environment" told={kept(build.environment_cached)} />
      <Part name="environment in" told={took(build.environment_ms)} />
    </Fact>
  );
}

function Part({ name, told }: { name: string; told: string | null | undefined }) {
  if (told == null) return null;
  return (
    <div>
      <span className="text-dim">{name}</span> <Said text={told} />
    </div>
  );
}

/** Attempt 0 Error: "Worker w3 timed out"; the whole of it when it is opened. */
function AttemptErrors({ attempts }: { attempts: Attempt[] }) {
  const failed = attempts.filter((attempt) => attempt.error);
  if (failed.length === 0) return null;
  return (
    <div className="border-line flex flex-col gap-2 border-t px-3 py-3">
      {failed.map(({ attempt_id: id, error }) => (
        <AttemptError key={id} id={id} error={error ?? ""} />
      ))}
    </div>
  );
}

function AttemptError({ id, error }: { id: number; error: string }) {
  const first = error.trim().split("\n", 1)[0] ?? "";
  const line = (
    <>
      Attempt {id} Error: "<Said text={first} lengthMax={300} />"
    </>
  );
  if (first === error.trim() && first.length <= 300) return <p>{line}</p>;
  return (
    <details>
      <summary className="cursor-pointer">{line}</summary>
      <div className="mt-2">
        <Block text={error} label={`Error of attempt ${id}`} />
      </div>
    </details>
  );
}
