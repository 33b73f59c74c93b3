"""The tables of schedules: what they submit and when, each firing, and what was missed."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.schedules import (
    FiringKind,
    FiringOutcome,
    Missed,
    ScheduleTerms,
)
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SCHEDULES = load_statements("submitting/schedules")


class ReadSchedule(NamedTuple):
    """What a schedule submits and when, as it stood when it was read; texts are JSON."""

    schedule_id: int
    name: str
    spec: str
    inputs: str | None
    placed: bool
    terms_text: str
    version: int
    next_at: datetime | None
    declared_by: str | None = None
    is_paused: bool = False
    is_retired: bool = False

    @property
    def terms(self) -> ScheduleTerms:
        """Say when it fires."""
        return read_tolerantly(self.terms_text, ScheduleTerms)

    @property
    def template(self) -> Submission:
        """Give what each firing submits."""
        return Submission(
            read_tolerantly(self.spec, JobSpec), parse_inputs(self.inputs), is_placed=self.placed
        )


def parse_inputs(text: str | None) -> tuple[str, ...] | None:
    """Take the inputs of a job apart, each as it came."""
    if text is None:
        return None
    values = msgspec.json.decode(text, type=list[msgspec.Raw])
    return tuple(bytes(value).decode() for value in values)


class NewSchedule(NamedTuple):
    """What is stored of a schedule; texts are JSON."""

    spec: str
    inputs: str | None
    placed: bool
    terms: str
    actor: str
    next_at: datetime | None
    due_at: datetime | None


class NewFiring(NamedTuple):
    """What an instant of a schedule has come to."""

    schedule_id: int
    instant: datetime
    kind: FiringKind
    outcome: FiringOutcome
    job_id: int | None = None
    problem: str | None = None


async def list_due_schedules(tx: Transaction, batch_max: int) -> list[ReadSchedule]:
    """List schedules whose time has come and that nobody holds, those that have waited first."""
    rows = await tx.fetch(_SCHEDULES["list_due_schedules"], batch_max=batch_max)
    return [ReadSchedule(*row) for row in rows]


async def close_ended_firings(tx: Transaction, schedule_ids: Collection[int]) -> None:
    """Note which jobs of firings have ended; the rows of their schedules are held."""
    await tx.fetch(_SCHEDULES["close_ended_firings"], schedule_ids=list(schedule_ids))


async def list_open_firings(tx: Transaction, schedule_ids: Collection[int]) -> dict[int, list[int]]:
    """List by schedule the jobs of firings that are not known to have ended, the oldest first."""
    rows = await tx.fetch(_SCHEDULES["list_open_firings"], schedule_ids=list(schedule_ids))
    found: dict[int, list[int]] = {}
    for schedule_id, job_id in rows:
        found.setdefault(schedule_id, []).append(job_id)
    return found


async def lock_schedules_as_read(tx: Transaction, read: Sequence[ReadSchedule]) -> set[int]:
    """Lock those that are still as they were read, and that nobody else holds."""
    rows = await tx.fetch(
        _SCHEDULES["lock_schedules_as_read"],
        schedule_ids=[each.schedule_id for each in read],
        versions=[each.version for each in read],
        next_ats=[each.next_at for each in read],
    )
    return {row[0] for row in rows}


async def insert_firings(
    tx: Transaction, firings: Sequence[NewFiring]
) -> set[tuple[int, datetime]]:
    """Store firings; returns those that are stored: an instant that has its job is left out."""
    rows = await tx.fetch(
        _SCHEDULES["insert_firings"],
        schedule_ids=[each.schedule_id for each in firings],
        instants=[each.instant for each in firings],
        kinds=[each.kind for each in firings],
        outcomes=[each.outcome for each in firings],
        job_ids=[each.job_id for each in firings],
        problems=[each.problem for each in firings],
    )
    return {(row[0], row[1]) for row in rows}


async def list_fired(
    tx: Transaction, schedule_id: int, instants: Sequence[datetime]
) -> set[datetime]:
    """List those of these instants that have their jobs."""
    rows = await tx.fetch(_SCHEDULES["list_fired"], schedule_id=schedule_id, instants=instants)
    return {row[0] for row in rows}


async def undo_firings(tx: Transaction, undone: Sequence[NewFiring]) -> None:
    """Note of firings that their jobs were not stored, and why."""
    await tx.fetch(
        _SCHEDULES["undo_firings"],
        schedule_ids=[each.schedule_id for each in undone],
        instants=[each.instant for each in undone],
        outcomes=[each.outcome for each in undone],
        problems=[each.problem for each in undone],
    )


async def insert_misses(tx: Transaction, missed: Sequence[tuple[int, Missed]]) -> None:
    """Note which instants of schedules have passed without anybody looking."""
    await tx.fetch(
        _SCHEDULES["insert_misses"],
        schedule_ids=[schedule_id for schedule_id, _ in missed],
        first_instants=[each.first for _, each in missed],
        last_instants=[each.last for _, each in missed],
        instants=[each.instants for _, each in missed],
    )


class Advance(NamedTuple):
    """The instant that is next for a schedule, and when it is looked at; None at its end."""

    schedule_id: int
    next_at: datetime | None
    due_at: datetime | None


async def advance_schedules(tx: Transaction, advances: Sequence[Advance]) -> None:
    """Set the next instants of locked schedules."""
    await tx.fetch(
        _SCHEDULES["advance_schedules"],
        schedule_ids=[each.schedule_id for each in advances],
        next_ats=[each.next_at for each in advances],
        due_ats=[each.due_at for each in advances],
    )


class PutOff(NamedTuple):
    """A schedule that cannot be fired now, for how long, and why."""

    read: ReadSchedule
    delay: timedelta
    problem: str


async def put_off_schedules(tx: Transaction, put_off: Sequence[PutOff]) -> None:
    """Look at schedules again after a while, if they have not been changed."""
    await tx.fetch(
        _SCHEDULES["put_off_schedules"],
        schedule_ids=[each.read.schedule_id for each in put_off],
        versions=[each.read.version for each in put_off],
        next_ats=[each.read.next_at for each in put_off],
        delays=[each.delay for each in put_off],
        problems=[each.problem for each in put_off],
    )


async def lock_schedule(tx: Transaction, name: str) -> ReadSchedule | None:
    """Lock a schedule by its name."""
    row = await tx.fetch_one(_SCHEDULES["lock_schedule"], name=name)
    return None if row is None else ReadSchedule(*row)


async def insert_schedule(
    tx: Transaction, name: str, new: NewSchedule, *, declared_by: str | None
) -> int | None:
    """Store a new schedule; returns its number, or None if there is one of its name."""
    row = await tx.fetch_one(
        _SCHEDULES["insert_schedule"], name=name, declared_by=declared_by, **new._asdict()
    )
    return None if row is None else int(row[0])


async def has_too_many(tx: Transaction, schedule_id: int, schedules_max: int) -> bool:
    """Tell whether there are more schedules than that, one that has just been stored included."""
    row = await tx.fetch_one(
        _SCHEDULES["has_too_many_schedules"], schedule_id=schedule_id, schedules_max=schedules_max
    )
    return row is not None and bool(row[0])


async def change_schedule(tx: Transaction, schedule_id: int, new: NewSchedule) -> None:
    """Store what a locked schedule is from now on."""
    await tx.fetch(_SCHEDULES["change_schedule"], schedule_id=schedule_id, **new._asdict())


async def delete_schedule(tx: Transaction, schedule_id: int) -> None:
    """Delete a locked schedule; what it has fired stays until retention."""
    await tx.fetch(_SCHEDULES["delete_schedule"], schedule_id=schedule_id)


async def pause_schedule(tx: Transaction, schedule_id: int, *, actor: str) -> None:
    """Have a locked schedule fire no more."""
    await tx.fetch(_SCHEDULES["pause_schedule"], schedule_id=schedule_id, actor=actor)


async def resume_schedule(
    tx: Transaction, schedule_id: int, *, next_at: datetime | None, due_at: datetime | None
) -> None:
    """Have a locked schedule fire again, from an instant on."""
    await tx.fetch(
        _SCHEDULES["resume_schedule"], schedule_id=schedule_id, next_at=next_at, due_at=due_at
    )


async def list_declared(tx: Transaction, modules: Collection[str]) -> list[str]:
    """List the functions of modules that declare a schedule."""
    rows = await tx.fetch(_SCHEDULES["list_declared"], modules=sorted(modules))
    return [row[0] for row in rows]


async def retire_schedule(tx: Transaction, schedule_id: int) -> None:
    """Have a locked schedule fire no more, since no code declares it any more."""
    await tx.fetch(_SCHEDULES["retire_schedule"], schedule_id=schedule_id)


async def prune_firings(tx: Transaction, *, older_than: timedelta, batch_max: int) -> int:
    """Delete old firings and misses; returns how many there were."""
    limits = {"older_than": older_than, "batch_max": batch_max}
    rows = await tx.fetch(_SCHEDULES["prune_firings"], **limits)
    return len(rows) + len(await tx.fetch(_SCHEDULES["prune_misses"], **limits))
