"""The table of jobs: stored, counted, ended, cancelled."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.work.outcomes import CancelMode
from holdfast.rules.job_state import JobCounts
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_JOBS = load_statements("work/jobs")


class JobNames(NamedTuple):
    """What a job and all that follows from it have in common."""

    job_id: int
    correlation_id: str | None
    trace_id: str | None


async def read_names(tx: Transaction, job_ids: Iterable[int]) -> list[JobNames]:
    """Read by which names jobs can be followed."""
    rows = await tx.fetch(_JOBS["read_names"], job_ids=sorted(job_ids))
    return list(map(JobNames._make, rows))


Key = tuple[str | None, str | None]


async def find_by_key(tx: Transaction, keys: Sequence[Key]) -> dict[Key, int]:
    """Find jobs by their owners and idempotency keys."""
    rows = await tx.fetch(
        _JOBS["find_by_key"],
        owners=[owner for owner, _ in keys],
        idempotency_keys=[key for _, key in keys],
    )
    return {(row[0], row[1]): row[2] for row in rows}


class Repeat(NamedTuple):
    """A submission under a key that may have been seen before; what was asked is a JSON text."""

    key: Key
    asked: str
    fan_out: bool
    num_tasks: int


class KeyedJob(NamedTuple):
    """The job that came under a key first, and whether the repeat asks for the same."""

    job_id: int
    shown: bool
    is_same: bool


async def find_repeated(tx: Transaction, repeats: Sequence[Repeat]) -> list[KeyedJob | None]:
    """Find what came first under the keys of submissions; inputs are not compared."""
    rows = await tx.fetch(
        _JOBS["find_repeated"],
        owners=[repeat.key[0] for repeat in repeats],
        idempotency_keys=[repeat.key[1] for repeat in repeats],
        asked=[repeat.asked for repeat in repeats],
        fan_out=[repeat.fan_out for repeat in repeats],
        num_tasks=[repeat.num_tasks for repeat in repeats],
    )
    found = {row[0]: KeyedJob(*row[1:]) for row in rows}
    return [found.get(position) for position in range(1, len(repeats) + 1)]


async def show_job(
    tx: Transaction, job_id: int, *, unmet: int, actor: str | None, now: datetime
) -> None:
    """Let a job that was stored in chunks be seen; without an actor, its owner has submitted it."""
    await tx.fetch(_JOBS["show_job"], job_id=job_id, unmet=unmet, actor=actor, now=now)


async def list_hidden_jobs(tx: Transaction, *, older_than: timedelta, batch_max: int) -> list[int]:
    """List hidden jobs that were abandoned, or began to be stored a while ago."""
    rows = await tx.fetch(_JOBS["list_hidden_jobs"], older_than=older_than, batch_max=batch_max)
    return [row[0] for row in rows]


async def lock_hidden_job(tx: Transaction, job_id: int) -> bool:
    """Lock a job that may still be shown; False if there is none."""
    return await tx.fetch_one(_JOBS["lock_hidden_job"], job_id=job_id) is not None


async def abandon_hidden_job(tx: Transaction, job_id: int) -> bool:
    """See to it that a hidden job is never shown, and free its key; False if there is none."""
    return await tx.fetch_one(_JOBS["abandon_hidden_job"], job_id=job_id) is not None


async def delete_job(tx: Transaction, job_id: int) -> None:
    """Delete the row of a job."""
    await tx.fetch(_JOBS["delete_job"], job_id=job_id)


class SpecRow(NamedTuple):
    """What is stored of a job's spec, a JSON text, and the names that travel with its tasks."""

    job_id: int
    spec: str
    correlation_id: str
    trace_id: str | None
    name: str
    num_tasks: int
    compensates_job_id: int | None
    trace_parent: str | None


async def load_specs(tx: Transaction, job_ids: Sequence[int]) -> list[SpecRow]:
    """Read the specs of jobs."""
    return list(map(SpecRow._make, await tx.fetch(_JOBS["load_specs"], job_ids=job_ids)))


async def read_verbosity(tx: Transaction, job_ids: Sequence[int]) -> dict[int, bool]:
    """Tell of jobs whether their renewals are noted."""
    return dict(await tx.fetch(_JOBS["read_verbosity"], job_ids=job_ids))


class JobMoves(NamedTuple):
    """By how much the counts of a job change, in the order of JobCounts, and its first error.

    It may have to be live still, when the transaction commits.
    """

    job_id: int
    counts: Sequence[int]
    error: str | None
    exit_code: int | None
    must_be_live: bool = False


class CountedMoves(NamedTuple):
    """Which jobs have ended by their new counts, and whether anything follows from it."""

    num_counted: int
    ended_job_ids: list[int] | None
    ended_states: list[int] | None
    has_follow_ups: bool


async def count_moves(tx: Transaction, moves: Sequence[JobMoves]) -> CountedMoves:
    """Change the counts of jobs, which come in the order of their ids; their states follow.

    Raises JobChanged if one that must be live is not.
    """
    columns = map(list, zip(*[job.counts for job in moves], strict=True))
    row = await tx.fetch_one(
        _JOBS["count_moves"],
        job_ids=[job.job_id for job in moves],
        **dict(zip(JobCounts._fields, columns, strict=True)),
        errors=[job.error for job in moves],
        exit_codes=[job.exit_code for job in moves],
        must_be_live=[job.must_be_live for job in moves],
    )
    assert row is not None
    return CountedMoves._make(row)


class LockedJob(NamedTuple):
    """A job as it stands under our lock."""

    job_id: int
    state: int
    cancel_mode: CancelMode | None
    cancel_reason: str | None
    num_tasks: int
    queue: str | None
    finished: bool


async def lock_job(tx: Transaction, job_id: int) -> LockedJob | None:
    """Lock one job."""
    row = await tx.fetch_one(_JOBS["lock_job"], job_id=job_id)
    return None if row is None else LockedJob._make(row)


async def list_free_jobs(tx: Transaction, job_ids: Iterable[int]) -> list[int]:
    """List those of these jobs that nobody holds this moment, in the order of their ids."""
    rows = await tx.fetch(_JOBS["list_free_jobs"], job_ids=sorted(job_ids))
    return [row[0] for row in rows]


class JobFlags(NamedTuple):
    """Whether a job has ended, or was asked to."""

    job_id: int
    cancel_mode: CancelMode | None
    finished: bool
    cancel_reason: str | None
    state: int


async def read_job_flags(tx: Transaction, job_ids: Iterable[int]) -> dict[int, JobFlags]:
    """Read how jobs stand, without a lock; those that do not exist are left out."""
    rows = await tx.fetch(_JOBS["read_job_flags"], job_ids=list(job_ids))
    return {row[0]: JobFlags._make(row) for row in rows}


class HeldJob(NamedTuple):
    """A job that cannot end before this transaction does; over if it was cancelled or has ended."""

    job_id: int
    state: int
    ended: bool
    is_over: bool


async def hold_jobs(tx: Transaction, job_ids: Iterable[int]) -> dict[int, HeldJob]:
    """Hold jobs, so that none ends meanwhile; those that do not exist are left out."""
    rows = await tx.fetch(_JOBS["hold_jobs"], job_ids=sorted(job_ids))
    return {row[0]: HeldJob._make(row) for row in rows}


async def flag_cancel(
    tx: Transaction, reasons: Sequence[tuple[int, str]], *, mode: CancelMode, actor: str
) -> None:
    """Flag locked jobs for cancel, each for its reason."""
    await tx.fetch(
        _JOBS["flag_cancel"],
        job_ids=[job_id for job_id, _ in reasons],
        reasons=[reason for _, reason in reasons],
        mode=mode,
        actor=actor,
    )


async def record_job_events(
    tx: Transaction, event_type: str, payloads: Mapping[int, str], *, actor: str
) -> None:
    """Record something that happened to jobs and is no move; each has a payload, a JSON text."""
    job_ids = sorted(payloads)
    await tx.fetch(
        _JOBS["record_job_events"],
        job_ids=job_ids,
        payloads=[payloads[job_id] for job_id in job_ids],
        event_type=event_type,
        actor=actor,
    )


async def read_time_to_start(tx: Transaction, job_id: int, delay: timedelta) -> timedelta:
    """Say how long it is until so long after a job was submitted, or released by others."""
    row = await tx.fetch_one(_JOBS["read_time_to_start"], job_id=job_id, delay=delay)
    assert row is not None, "a job that is fed is there"
    early: timedelta = row[0]
    return early


async def list_live_children(
    tx: Transaction, job_id: int, *, mode: CancelMode, batch_max: int
) -> list[int]:
    """List children of a job that have not ended, nor been cancelled like this."""
    rows = await tx.fetch(
        _JOBS["list_live_children"], job_id=job_id, mode=mode, batch_max=batch_max
    )
    return [row[0] for row in rows]


async def list_finished(tx: Transaction, job_ids: Sequence[int]) -> list[int]:
    """List those of these jobs that have ended."""
    return [row[0] for row in await tx.fetch(_JOBS["list_finished"], job_ids=job_ids)]


class JobToRerun(NamedTuple):
    """A job that somebody wants to run again; `live` counts its tasks that have not finished."""

    state: int
    finished_at: datetime | None
    fan_out: bool
    num_tasks: int
    live: int


async def read_job_to_rerun(tx: Transaction, job_id: int) -> JobToRerun | None:
    """Read how a job stands that is to be run again."""
    row: Any = await tx.fetch_one(_JOBS["read_job_to_rerun"], job_id=job_id)
    return None if row is None else JobToRerun._make(row)


class JobOfAge(NamedTuple):
    """A job of a type whose age is limited: whether it is over it, and whether it goes on."""

    job_id: int
    num_tasks: int
    is_old: bool
    is_live: bool


async def walk_jobs_by_age(
    tx: Transaction, type_name: str, *, age: float, after: int, jobs_max: int
) -> list[JobOfAge]:
    """Walk through the jobs of a type, the oldest first."""
    rows = await tx.fetch(
        _JOBS["walk_jobs_by_age"],
        type=type_name,
        age=timedelta(seconds=age),
        after_job_id=after,
        jobs_max=jobs_max,
    )
    return list(map(JobOfAge._make, rows))
