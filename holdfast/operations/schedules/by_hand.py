"""Fire a schedule by hand: now, or for instants of the past."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from holdfast.errors import Invalid, NotFound, Refused, TooLarge, Unavailable
from holdfast.ledger.keys import RequestKey, recall, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.actions import ActionKind
from holdfast.model.submitting.schedules import Firing, Overlap
from holdfast.model.submitting.spec import Submission
from holdfast.operations.schedules.change import get_locked
from holdfast.operations.schedules.fire import Plan, cancel_earlier, prepare, store_firings
from holdfast.operations.submitting.accept import accept, under_policies
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX
from holdfast.rules.schedules.checks import check_schedule_name
from holdfast.rules.schedules.instants import instants_between
from holdfast.rules.schedules.overlap import Waits, decide_overlap, refuse_too_many
from holdfast.rules.schedules.turn import Turn
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.submitting import schedules
from holdfast.store.tables.submitting.schedules import NewFiring, ReadSchedule

BACKFILL_MAX = 1000
BATCH_MAX = 100


class Known(NamedTuple):
    """A schedule as it stands, and the jobs of its firings that have not ended."""

    read: ReadSchedule
    open_jobs: Sequence[int]
    now: datetime


class Backfilled(NamedTuple):
    """How many instants of a range were fired, how many had their job before, and the new jobs."""

    instants: int
    already: int
    job_ids: list[int]


async def run_now(ledger: Ledger, name: str, *, actor: str, keyed: RequestKey | None = None) -> int:
    """Fire a schedule at this moment, paused or not; returns the job's id."""
    check_schedule_name(name)
    check_text("actor", actor, 256)
    first = await recall(ledger, keyed, int)
    if first is not None:
        return first
    known = await _read(ledger, name)
    waits = decide_overlap(known.read.terms.overlap, known.open_jobs)
    if isinstance(waits, str):
        raise Refused(f"schedule {name} is not run now: {waits}; wait for its end, or cancel it")
    firing = Firing(known.now, "manual")
    submission = prepare(known.read, known.read.template, firing, waits=waits)

    async def run() -> int:
        [job] = await _admit(ledger, [submission])
        return await write_once(
            ledger,
            keyed,
            _run,
            returns=int,
            known=known,
            firing=firing,
            job=job,
            cancels=waits.cancels,
            actor=actor,
        )

    return await under_policies(run)


async def _run(
    ledger: Ledger,
    tx: Transaction,
    *,
    known: Known,
    firing: Firing,
    job: Admitted,
    cancels: bool,
    actor: str,
) -> int:
    read = known.read
    await _lock_as_known(tx, known)
    if cancels:
        plan = Plan(read, Turn(None, [firing], None), known.open_jobs, [], known.open_jobs)
        await cancel_earlier(ledger, tx, [plan])
    new = NewFiring(read.schedule_id, *firing, "fired", job.job_id)
    await _store(tx, [new], [job])
    await _record(tx, actor, "run_schedule", name=read.name, job_id=str(job.job_id))
    return job.job_id


async def backfill(
    ledger: Ledger,
    name: str,
    first: datetime,
    *,
    last: datetime,
    actor: str,
    overlap: Overlap | None = None,
    dry_run: bool = False,
) -> Backfilled:
    """Fire the instants of a range that have passed and got no job; doing it twice is harmless.

    They run one after another, or all at once where the overlap is `allow`.
    """
    check_schedule_name(name)
    check_text("actor", actor, 256)
    known = await _read(ledger, name)
    instants = _list_instants(known, first, last)
    side_by_side = (overlap or known.read.terms.overlap) == "allow"
    async with ledger.database.transaction() as tx:
        fired = await schedules.list_fired(tx, known.read.schedule_id, instants)
    wanted = [instant for instant in instants if instant not in fired]
    if not side_by_side:
        refuse_too_many(known.open_jobs, wanted)
    if dry_run:
        return Backfilled(len(instants), len(fired), [])
    job_ids: list[int] = []
    is_first = True
    while wanted:
        tasks = max(known.read.template.num_tasks, 1)
        size = min(BATCH_MAX, max(CHUNK_TASKS_MAX // tasks, 1)) if side_by_side else 1
        part, wanted = wanted[:size], wanted[size:]
        facts = {"from": first, "until": last, "instants": len(instants)} if is_first else None
        job_ids += await _fire_part(
            ledger, name, part, facts=facts, actor=actor, side_by_side=side_by_side
        )
        is_first = False
    return Backfilled(len(instants), len(fired), job_ids)


def _list_instants(known: Known, first: datetime, last: datetime) -> list[datetime]:
    for field, moment in (("from", first), ("until", last)):
        if moment.tzinfo is None:
            raise Invalid(field, "has no time zone; write it like 2026-11-18T09:00Z")
        if moment > known.now:
            raise Invalid(field, f"{moment.isoformat()} has not come; give a time that has passed")
    if last < first:
        raise Invalid("until", "is before from; turn them round")
    found = list(islice(instants_between(known.read.terms, first, last), BACKFILL_MAX + 1))
    if len(found) > BACKFILL_MAX:
        raise TooLarge("until", len(found), BACKFILL_MAX, unit="instants at once; give parts")
    return found


async def _fire_part(
    ledger: Ledger,
    name: str,
    instants: Sequence[datetime],
    *,
    facts: dict[str, object] | None,
    actor: str,
    side_by_side: bool,
) -> list[int]:
    known = await _read(ledger, name)
    waits = Waits() if side_by_side else decide_overlap("queue", known.open_jobs)
    if isinstance(waits, str):
        raise Refused(f"schedule {name}: {waits}; backfill the rest later, or with overlap allow")
    firings = [Firing(instant, "backfill") for instant in instants]
    template = known.read.template
    wanted = [prepare(known.read, template, firing, waits=waits) for firing in firings]

    async def fire() -> list[int]:
        jobs = await _admit(ledger, wanted)
        return await ledger.write(
            _backfill, known=known, firings=firings, jobs=jobs, actor=actor, facts=facts
        )

    return await under_policies(fire)


async def _backfill(
    _: Ledger,
    tx: Transaction,
    *,
    known: Known,
    firings: Sequence[Firing],
    jobs: Sequence[Admitted],
    actor: str,
    facts: dict[str, object] | None,
) -> list[int]:
    await _lock_as_known(tx, known)
    rows = [
        NewFiring(known.read.schedule_id, *firing, "fired", job.job_id)
        for firing, job in zip(firings, jobs, strict=True)
    ]
    if facts is not None:
        await _record(tx, actor, "backfill_schedule", name=known.read.name, **facts)
    return await _store(tx, rows, jobs)


async def _store(tx: Transaction, rows: Sequence[NewFiring], jobs: Sequence[Admitted]) -> list[int]:
    stored = await store_firings(tx, rows, jobs)
    for each in stored:
        if each.problem is not None:
            raise Refused(each.problem)
    tx.news.firings += [("fired", None) for _ in stored]
    return [each.job_id for each in stored if each.job_id is not None]


async def _read(ledger: Ledger, name: str) -> Known:
    async with ledger.database.transaction() as tx:
        read = await get_locked(tx, name)
        await schedules.close_ended_firings(tx, [read.schedule_id])
        found = await schedules.list_open_firings(tx, [read.schedule_id])
        return Known(read, found.get(read.schedule_id, ()), await tx.now())


async def _lock_as_known(tx: Transaction, known: Known) -> None:
    """Lock a schedule, and see that nobody has changed or fired it since it was read."""
    name = known.read.name
    found = await schedules.lock_schedule(tx, name)
    if found is None or found.schedule_id != known.read.schedule_id:
        raise NotFound("schedule", name)
    open_jobs = await schedules.list_open_firings(tx, [found.schedule_id])
    is_known = set(open_jobs.get(found.schedule_id, ())) <= set(known.open_jobs)
    if found.version != known.read.version or not is_known:
        raise Unavailable(f"schedule {name} was changed or fired at the same moment; try again")


async def _admit(ledger: Ledger, submissions: Sequence[Submission]) -> list[Admitted]:
    accepted, policies = await accept(ledger, submissions)
    good: list[Submission] = []
    for each in accepted:
        if isinstance(each, Refused):
            raise each
        good.append(each)
    async with ledger.quotas.room_for(good):
        return await admit(ledger, good, policies)


async def _record(
    tx: Transaction, actor: str, action: ActionKind, *, name: str, **facts: object
) -> None:
    await record_actions(tx, [NewAction(actor, action, "schedule", name, facts=facts)])
