"""The table of leases: every attempt that has begun and whose process may still be there."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from holdfast.model.work.attempts import LockedLease
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import fence_columns, fence_values, id_columns

_LEASES = load_statements("work/leases")


async def lock_leases(tx: Transaction, task_ids: Iterable[TaskId]) -> dict[TaskId, LockedLease]:
    """Lock the leases of tasks that are locked already."""
    rows = await tx.fetch(_LEASES["lock_leases"], **id_columns(sorted(set(task_ids))))
    return {TaskId(row[0], row[1]): LockedLease._make(row) for row in rows}


class RenewedLease(NamedTuple):
    """A lease that holds longer now, and whether its attempt was asked to stop."""

    job_id: int
    task_index: int
    attempt: int
    lease_token: UUID
    expires_at: datetime
    now: datetime
    ending: bool
    cancelled: bool
    cancel_deadline_at: datetime | None


async def renew_leases(tx: Transaction, fences: Sequence[Fence]) -> list[RenewedLease]:
    """Renew leases; those that somebody else has locked, and those that are gone, are left out."""
    rows = await tx.fetch(_LEASES["renew_leases"], **fence_columns(fences))
    return list(map(RenewedLease._make, rows))


async def find_leases(tx: Transaction, fences: Sequence[Fence]) -> set[Fence]:
    """Find which fences speak for an attempt that holds a lease, ending or not."""
    rows = await tx.fetch(_LEASES["find_leases"], **fence_columns(fences))
    return {Fence(TaskId(row[0], row[1]), row[2], row[3]) for row in rows}


async def has_live_lease(tx: Transaction, fence: Fence) -> bool:
    """Tell whether an attempt may still act for its job: it has not ended."""
    return await tx.fetch_one(_LEASES["find_live_lease"], **fence_values(fence)) is not None


async def find_holder(tx: Transaction, fence: Fence) -> str | None:
    """Find the worker that holds a lease."""
    row = await tx.fetch_one(_LEASES["find_holder"], **fence_values(fence))
    return None if row is None else row["worker_id"]


class ClaimedLease(NamedTuple):
    """A lease as it was given to a claim, and the task under it."""

    job_id: int
    task_index: int
    attempt: int
    lease_token: UUID
    expires_at: datetime
    now: datetime
    failure_count: int
    preemption_count: int
    free_loss_count: int
    input: str | None
    state: int


async def list_claimed_with_key(
    tx: Transaction, worker_id: str, claim_key: str
) -> list[ClaimedLease]:
    """List what a worker has claimed under a key and still holds."""
    rows = await tx.fetch(
        _LEASES["list_claimed_with_key"], worker_id=worker_id, claim_key=claim_key
    )
    return list(map(ClaimedLease._make, rows))


async def list_reapable(
    tx: Transaction, *, waiting: bool, except_jobs: Sequence[int], batch_max: int
) -> list[TaskId]:
    """List tasks with a lease past a deadline that nobody holds; while waiting, expiry is none."""
    rows = await tx.fetch(
        _LEASES["list_reapable"], waiting=waiting, except_jobs=except_jobs, batch_max=batch_max
    )
    return list(map(TaskId._make, rows))


async def list_leases_of_worker(
    tx: Transaction,
    worker_id: str,
    *,
    also_ending: bool,
    except_jobs: Sequence[int],
    batch_max: int,
) -> list[TaskId]:
    """List tasks that a worker holds a lease of, and that nobody holds this moment."""
    rows = await tx.fetch(
        _LEASES["list_leases_of_worker"],
        worker_id=worker_id,
        also_ending=also_ending,
        except_jobs=except_jobs,
        batch_max=batch_max,
    )
    return list(map(TaskId._make, rows))


class ReleasedLease(NamedTuple):
    """A lease that is gone, and the slots it held: in which buckets, and how many of each."""

    job_id: int
    task_index: int
    held: str | None
    slots: int | None


async def release_leases(tx: Transaction, task_ids: Sequence[TaskId]) -> list[ReleasedLease]:
    """Delete the ending leases of locked tasks and note it with their attempts."""
    rows = await tx.fetch(_LEASES["release_leases"], **id_columns(task_ids))
    return list(map(ReleasedLease._make, rows))


class OpenedTask(NamedTuple):
    """A task that stands in line again since a slot is free; without one, a whole queue."""

    queue: str
    job_id: int | None
    task_index: int | None


async def open_freed(
    tx: Transaction, held: Sequence[str], slots: Sequence[int]
) -> list[OpenedTask]:
    """Let tasks back into line whose limits have got room by leases that are gone."""
    rows = await tx.fetch(_LEASES["open_freed"], held=held, slots=slots)
    return list(map(OpenedTask._make, rows))


async def request_soft_cancel(
    tx: Transaction, graces: Sequence[tuple[TaskId, timedelta]], *, reason: str
) -> list[TaskId]:
    """Ask attempts to stop within their grace; returns those that had not been asked before."""
    rows = await tx.fetch(
        _LEASES["request_soft_cancel"],
        **id_columns([task_id for task_id, _ in graces]),
        graces=[grace for _, grace in graces],
        reason=reason,
    )
    return list(map(TaskId._make, rows))


class AskedToStop(NamedTuple):
    """An attempt that should stop: at once if it is ending, else before the deadline."""

    worker_id: str
    job_id: int
    task_index: int
    attempt: int
    ending: bool
    cancel_deadline_at: datetime
    now: datetime


async def list_asked_to_stop(tx: Transaction, worker_ids: Sequence[str]) -> list[AskedToStop]:
    """List the attempts on these workers that should stop."""
    rows = await tx.fetch(_LEASES["list_asked_to_stop"], worker_ids=worker_ids)
    return list(map(AskedToStop._make, rows))
