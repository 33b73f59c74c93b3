/** The lease of an attempt, as it runs down and is renewed. */
import type { Attempt } from "../../api/types";
import { absolute, duration } from "../../parts/format";
import { Nothing, useNow } from "../../parts/show";
import { Bar } from "./bar";
import { isHeld } from "./reads";

export function Lease({
  attempt,
  seconds,
}: {
  attempt: Attempt | undefined;
  /** How long it is when it is new. */
  seconds: number;
}) {
  const nowMs = useNow();
  if (!isHeld(attempt) || attempt.lease_expires_at_ms == null) return <Nothing />;
  const leftMs = attempt.lease_expires_at_ms - nowMs;
  const isOver = leftMs <= 0;
  return (
    <>
      <span
        title={`until ${absolute(attempt.lease_expires_at_ms)}`}
        className={`tabular-nums ${isOver || attempt.is_orphaned ? "text-bad" : ""}`}
      >
        {isOver ? `ran out ${duration(-leftMs)} ago` : `${Math.floor(leftMs / 1000)} s left`}
      </span>
      {attempt.is_orphaned && <span className="badge status-failed ml-2">orphaned</span>}
      {attempt.finished_at_ms != null && (
        <span className="text-dim ml-2">its worker has not let go yet</span>
      )}
      <Bar
        role="meter"
        label="What is left of the lease"
        share={leftMs / Math.max(seconds * 1000, leftMs)}
        isBad={attempt.is_orphaned}
      />
    </>
  );
}
