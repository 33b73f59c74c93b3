"""The lease reaper: ends what has run out of time.

One pass over the leases serves three deadlines: a lease that ran out, a run that took too long, and
a soft cancel whose grace is over. The first proves that the process is gone, by the worker's own
clock; the other two only end the state, and the lease lives on as ending.
"""

from datetime import datetime

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId
from holdfast.model.outcomes import Failed, Killed, Outcome, WorkerFailed
from holdfast.model.spec import Policy
from holdfast.operations.ending.endings import apply_endings, lock_leases, lock_tasks
from holdfast.operations.ending.gangs import Notice, decide_endings, widen
from holdfast.operations.ending.release import release
from holdfast.rules.outage import Watch, is_free, is_waiting, next_watch
from holdfast.store.database import Transaction
from holdfast.store.rows import LockedLease
from holdfast.store.statements import load_statements

_LEASES = load_statements("leases")
BATCH_MAX = 500


async def reap(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Make one pass; returns how many attempts ended or were released."""
    watch = await ledger.write(_take_note)
    if watch is None:  # another server is at it this moment
        return 0
    async with ledger.database.transaction() as tx:
        now = await tx.now()
        rows = await tx.fetch(
            _LEASES["list_reapable"], waiting=is_waiting(watch, now), batch_max=batch_max
        )
    candidates = [TaskId(row[0], row[1]) for row in rows]
    return await ledger.write(_end_overdue, candidates, watch=watch) if candidates else 0


async def _take_note(_: Ledger, tx: Transaction) -> Watch | None:
    row = await tx.fetch_one(_LEASES["lock_reaper"])
    if row is None:
        return None
    last_pass_at, outage_from, outage_until, now = row
    watch = next_watch(Watch(last_pass_at, outage_from, outage_until), now)
    await tx.fetch(
        _LEASES["record_reaper_pass"],
        last_pass_at=watch.last_pass_at,
        outage_from=watch.outage_from,
        outage_until=watch.outage_until,
    )
    return watch


async def _end_overdue(
    ledger: Ledger, tx: Transaction, candidates: list[TaskId], *, watch: Watch
) -> int:
    # A loss concerns the whole gang.
    touched = await widen(ledger, tx, candidates)
    tasks = await lock_tasks(tx, touched)
    leases = await lock_leases(tx, touched)
    specs = await ledger.specs.load(tx, {lease.job_id for lease in leases.values()})
    now = await tx.now()
    expiry_counts = not is_waiting(watch, now)
    moves = Moves()
    notices: dict[TaskId, Notice] = {}
    run_out: list[TaskId] = []
    for task_id, lease in leases.items():
        expired = lease.expires_at <= now and expiry_counts
        if lease.ending:
            if expired:
                run_out.append(task_id)
            continue
        policy = specs[task_id.job_id].policy
        outcome = _overdue_outcome(lease, policy, now, watch=watch if expired else None)
        if outcome is not None:
            notices[task_id] = Notice(outcome, released=expired)
    endings = decide_endings(specs, tasks, leases, notices=notices)
    await apply_endings(tx, moves, endings)
    await release(tx, run_out)
    await apply_moves(tx, moves)
    tx.news.expired += len(run_out) + sum(ending.released for ending in endings)
    return len(endings) + len(run_out)


def _overdue_outcome(
    lease: LockedLease, policy: Policy, now: datetime, *, watch: Watch | None
) -> Outcome | None:
    """Say how an open attempt ends by its deadlines, if it does; `watch` once the lease ran out."""
    if watch is not None:
        return WorkerFailed(
            "lease expired",
            free=is_free(watch, lease.expires_at),
            acknowledged=lease.acknowledged,
        )
    if lease.cancel_deadline_at is not None and lease.cancel_deadline_at <= now:
        return Killed(lease.cancel_reason or "cancelled", error="the grace of its cancel was over")
    if lease.run_deadline_at is not None and lease.run_deadline_at <= now:
        text = f"ran longer than its timeout of {policy.timeout:g} s"
        if policy.on_timeout == "kill":
            return Killed("timeout", error=text, timed_out=True)
        return Failed(text, error_class="Timeout")
    return None
