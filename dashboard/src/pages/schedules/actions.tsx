/** What can be done with a schedule: each says first what will happen. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, now, unwrap } from "../../api/client";
import type { Schedule } from "../../api/types";
import { Button } from "../../parts/button";
import { useConfirm } from "../../parts/confirm";
import { plural } from "../../parts/format";
import { Failure } from "../../parts/page";
import { newRequestKey } from "../../parts/request_key";
import { Said } from "../../parts/show";
import { inert, shorten } from "../../parts/text";
import { fromField, timing, toField } from "./words";

const DAY_MS = 86_400_000;

function useAgain() {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: ["schedules"] });
}

function pathTo(schedule: Schedule) {
  return { path: { schedule: schedule.name } };
}

export function RunNow({ schedule }: { schedule: Schedule }) {
  const ask = useConfirm();
  const again = useAgain();
  function click() {
    const key = newRequestKey();
    ask({
      title: "Run it now?",
      body: (
        <p>
          A job of <Said text={schedule.runs} lengthMax={200} /> is submitted at once, whatever is
          due later.
        </p>
      ),
      action: "Run now",
      run: async () => {
        const done = await unwrap(
          api.POST("/api/schedules/{schedule}:run-now", {
            params: pathTo(schedule),
            body: { idempotency_key: key },
          }),
        );
        await again();
        return (
          <>
            Submitted:{" "}
            <Link href={`/jobs/${done.job_id}`} className="underline">
              job {done.job_id}
            </Link>
          </>
        );
      },
    });
  }
  return (
    <Button needs="admin" onClick={click}>
      Run now
    </Button>
  );
}

export function PauseOrResume({ schedule }: { schedule: Schedule }) {
  const ask = useConfirm();
  const again = useAgain();
  const name = shorten(inert(schedule.name), 80);
  if (schedule.state === "paused") {
    return (
      <Button
        needs="admin"
        onClick={() =>
          ask({
            title: "Resume this schedule?",
            body: (
              <p>
                It fires again, <Said text={timing(schedule)} />. What passed while it was paused is
                not made up for; a backfill does that.
              </p>
            ),
            action: "Resume",
            run: async () => {
              await unwrap(
                api.POST("/api/schedules/{schedule}:resume", { params: pathTo(schedule) }),
              );
              await again();
              return `${name} fires again`;
            },
          })
        }
      >
        Resume
      </Button>
    );
  }
  if (schedule.state !== "active") return null;
  return (
    <Button
      needs="admin"
      onClick={() =>
        ask({
          title: "Pause this schedule?",
          body: <p>It does not fire until it is resumed. Jobs that it has submitted go on.</p>,
          action: "Pause",
          run: async () => {
            await unwrap(api.POST("/api/schedules/{schedule}:pause", { params: pathTo(schedule) }));
            await again();
            return `${name} is paused`;
          },
        })
      }
    >
      Pause
    </Button>
  );
}

export function Remove({ schedule }: { schedule: Schedule }) {
  const ask = useConfirm();
  const client = useQueryClient();
  const [, go] = useLocation();
  return (
    <Button
      needs="admin"
      onClick={() =>
        ask({
          title: "Delete this schedule?",
          body: <p>It never fires again. Jobs that it has submitted go on and are kept.</p>,
          action: "Delete",
          danger: true,
          run: async () => {
            // Away first: what is gone cannot be read again.
            go("/schedules");
            await unwrap(api.DELETE("/api/schedules/{schedule}", { params: pathTo(schedule) }));
            await client.invalidateQueries({ queryKey: ["schedules"], exact: true });
            return `Schedule ${shorten(inert(schedule.name), 80)} is deleted`;
          },
        })
      }
    >
      Delete …
    </Button>
  );
}

export function Backfill({ schedule }: { schedule: Schedule }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button needs="admin" onClick={() => setIsOpen(true)}>
        Backfill …
      </Button>
      {isOpen && <BackfillDialog schedule={schedule} onClose={() => setIsOpen(false)} />}
    </>
  );
}

type Plan = { instants: number; already: number };

/** First how many there are, then the deed. */
function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const again = useAgain();
  const [from, setFrom] = useState(() => toField(now() - DAY_MS));
  const [until, setUntil] = useState(() => toField(now()));
  const [plan, setPlan] = useState<Plan | null>(null);
  const [done, setDone] = useState<string[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);

  async function ask(isDry: boolean) {
    const [fromMs, untilMs] = [fromField(from), fromField(until)];
    if (fromMs === null || untilMs === null) {
      setError(new Error("Give the first and the last moment."));
      return;
    }
    setIsBusy(true);
    setError(null);
    try {
      const answer = await unwrap(
        api.POST("/api/schedules/{schedule}:backfill", {
          params: pathTo(schedule),
          body: { from_ms: fromMs, until_ms: untilMs, dry_run: isDry },
        }),
      );
      if (isDry) setPlan(answer);
      else {
        setDone(answer.job_ids);
        await again();
      }
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
    } finally {
      setIsBusy(false);
    }
  }

  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-labelledby="backfill"
      className="border-line bg-panel text-ink m-auto w-[min(32rem,calc(100vw-2rem))] rounded-lg border p-0 shadow-xl"
    >
      <form
        className="flex flex-col gap-4 p-5"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy && done === null) void ask(plan === null);
        }}
      >
        <h2 id="backfill" className="text-lg font-semibold">
          Backfill
        </h2>
        <p className="text-dim">Fires the instants of a range that have passed and have no job.</p>
        <fieldset disabled={done !== null} className="grid min-w-0 gap-3 sm:grid-cols-2">
          <Moment label="From" value={from} onChange={(text) => (setFrom(text), setPlan(null))} />
          <Moment
            label="Until"
            value={until}
            onChange={(text) => (setUntil(text), setPlan(null))}
          />
        </fieldset>
        {plan !== null && done === null && <Planned plan={plan} />}
        {done !== null && <p role="status">{plural(done.length, "job")} submitted.</p>}
        {error !== null && <Failure error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={() => dialog.current?.close()}>
            {done === null ? "Cancel" : "Close"}
          </Button>
          {done === null && (
            <Button
              type="submit"
              look="main"
              disabled={isBusy || (plan !== null && plan.instants === plan.already)}
            >
              {plan === null ? "Count" : `Submit ${plural(plan.instants - plan.already, "job")}`}
            </Button>
          )}
        </div>
      </form>
    </dialog>
  );
}

function Planned({ plan }: { plan: Plan }): ReactNode {
  return (
    <p role="status">
      {plural(plan.instants, "instant")} in this range, {plan.already} with a job already.
    </p>
  );
}

function Moment({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (text: string) => void;
}) {
  return (
    <label className="text-dim min-w-0 text-xs">
      {label}
      <input
        type="datetime-local"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        className="border-line bg-page text-ink w-full rounded-md border px-2 py-1 text-sm"
      />
    </label>
  );
}
