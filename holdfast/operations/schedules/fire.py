"""Fire the schedules whose time has come: each instant once, whoever dies and however many look.

read    due rows that nobody holds, and the jobs of earlier firings that have not ended
decide  the rules say what is missed and what is fired; the overlap, whether it is and after whom
admit   the jobs are accepted like any other, and get their ids
write   schedules that still stand as they were read: firings, jobs and next instants, all in one
        transaction

An instant has a row with a key of its own, so that a second firing has no place. What cannot be
taken in or written just now is put off; what is refused is noted, and the next instant is another
matter.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from holdfast.errors import LimitReached, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.parts import HELD_PUT_OFF, Failure, raise_broken, write_in_parts
from holdfast.model.submitting.order import Dependency
from holdfast.model.submitting.schedules import Firing
from holdfast.model.submitting.spec import Submission
from holdfast.operations.ending.cancel import flag_job
from holdfast.operations.submitting.accept import accept, under_policies
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX, Answer, store_jobs
from holdfast.rules.schedules.checks import submission_at
from holdfast.rules.schedules.instants import due_at
from holdfast.rules.schedules.overlap import Waits, decide_overlap
from holdfast.rules.schedules.turn import Turn, decide_turn
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.submitting import schedules
from holdfast.store.tables.submitting.schedules import Advance, NewFiring, PutOff, ReadSchedule

log = logging.getLogger("holdfast.schedules")
BATCH_MAX = 100
PROBLEM_LENGTH_MAX = 1000
LIMITED_PUT_OFF = timedelta(seconds=30)
BROKEN_PUT_OFF = timedelta(minutes=5)


class Plan(NamedTuple):
    """What one turn makes of a schedule; `jobs` stand for its firings that submit one."""

    read: ReadSchedule
    turn: Turn
    open_jobs: Sequence[int]
    # What each firing submits, or why it does not.
    answers: Sequence[Submission | str]
    cancelled: Sequence[int] = ()
    jobs: Sequence[Admitted | str] = ()

    def __repr__(self) -> str:
        """Name the schedule alone: the job may hold secrets, and this stands in the log."""
        return f"schedule {self.read.name}"


async def fire_due(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Take a turn with schedules that are due; returns with how many.

    One that cannot be written is put off, so that it does not keep others waiting; then what broke
    is raised.
    """
    async with ledger.database.transaction() as tx:
        due = await schedules.list_due_schedules(tx, batch_max)
        if not due:
            return 0
        open_jobs = await _find_open(tx, due)
        now = await tx.now()
    # After a long outage this takes a while, in which the server has heartbeats to answer.
    plans, put_off = await asyncio.to_thread(_decide, due, open_jobs, now)
    failures: list[Failure[Plan]] = []
    for batch in _split(plans):
        limited, failed = await under_policies(partial(_fire, ledger, batch))
        put_off += limited
        failures += failed
    put_off += [each for failure in failures for each in _put_off_failed(failure)]
    if put_off:
        await ledger.write(_put_off, put_off)
    raise_broken(failures)
    return len(due)


async def _find_open(tx: Transaction, due: Sequence[ReadSchedule]) -> dict[int, list[int]]:
    ids = [each.schedule_id for each in due]
    await schedules.close_ended_firings(tx, ids)
    return await schedules.list_open_firings(tx, ids)


def _decide(
    due: Iterable[ReadSchedule], open_jobs: Mapping[int, Sequence[int]], now: datetime
) -> tuple[list[Plan], list[PutOff]]:
    """Decide about each schedule; one that cannot be understood does not hold up the others."""
    plans, put_off = [], []
    for read in due:
        try:
            plans.append(_plan(read, open_jobs.get(read.schedule_id, ()), now))
        except (Refused, msgspec.ValidationError) as error:
            log.error("schedule %s cannot be fired: %s", read.name, error)
            put_off.append(PutOff(read, BROKEN_PUT_OFF, str(error)[:PROBLEM_LENGTH_MAX]))
    return plans, put_off


def _plan(read: ReadSchedule, open_jobs: Sequence[int], now: datetime) -> Plan:
    assert read.next_at is not None, "a schedule is due at an instant"
    terms = read.terms
    turn = decide_turn(read.name, terms, read.next_at, now=now)
    template = read.template
    waits = decide_overlap(terms.overlap, open_jobs)
    answers: list[Submission | str] = [
        waits if isinstance(waits, str) else prepare(read, template, firing, waits=waits)
        for firing in turn.firings
    ]
    is_cancelling = turn.firings and not isinstance(waits, str) and waits.cancels
    return Plan(read, turn, open_jobs, answers, open_jobs if is_cancelling else ())


def prepare(
    read: ReadSchedule, template: Submission, firing: Firing, *, waits: Waits
) -> Submission:
    """Make the submission of a firing, which waits for the end of some jobs."""
    made = submission_at(template, read.name, firing.instant)
    if not waits.job_ids:
        return made
    depends_on: list[str | Dependency] = [
        Dependency(str(job_id), "ended") for job_id in waits.job_ids
    ]
    return msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, depends_on=depends_on)
    )


def _split(plans: Iterable[Plan]) -> Iterable[list[Plan]]:
    """Split plans into what one transaction stores."""
    batch: list[Plan] = []
    room = CHUNK_TASKS_MAX
    for plan in plans:
        tasks = sum(each.num_tasks for each in plan.answers if isinstance(each, Submission))
        if batch and tasks > room:
            yield batch
            batch, room = [], CHUNK_TASKS_MAX
        batch.append(plan)
        room -= tasks
    if batch:
        yield batch


async def _fire(ledger: Ledger, plans: Sequence[Plan]) -> tuple[list[PutOff], list[Failure[Plan]]]:
    """Admit and write; returns what is put off, since its owner has too much, and what failed."""
    wanted = [
        (number, position, each)
        for number, plan in enumerate(plans)
        for position, each in enumerate(plan.answers)
        if isinstance(each, Submission)
    ]
    accepted, policies = await accept(ledger, [each for *_, each in wanted])
    good = {k: each for k, each in enumerate(accepted) if isinstance(each, Submission)}
    over = await ledger.quotas.find_over(good)
    limited = {wanted[k][0]: error for k, error in over.items()}
    good = {k: each for k, each in good.items() if wanted[k][0] not in limited}
    with ledger.quotas.arriving(good.values()):
        admitted = await admit(ledger, list(good.values()), policies) if good else []
        by_position = dict(zip(good, admitted, strict=True))
        jobs: list[list[Admitted | str]] = [
            [each if isinstance(each, str) else "" for each in plan.answers] for plan in plans
        ]
        for k, (number, position, _) in enumerate(wanted):
            jobs[number][position] = by_position.get(k) or _say(accepted[k])
        ready = [
            [plan._replace(jobs=jobs[number])]
            for number, plan in enumerate(plans)
            if number not in limited
        ]
        _, failures = await write_in_parts(partial(ledger.write, _write), ready)
    put_off = [
        PutOff(plans[number].read, LIMITED_PUT_OFF, str(error)[:PROBLEM_LENGTH_MAX])
        for number, error in limited.items()
    ]
    return put_off, failures


def _put_off_failed(failure: Failure[Plan]) -> list[PutOff]:
    """Put off what could not be written: for long if it is broken itself, as far as is known."""
    is_broken = len(failure.items) == 1 and not isinstance(failure.error, LockTimeout)
    # The first line alone: in the others the database shows the row, and with it the job's secrets.
    problem = (str(failure.error) or type(failure.error).__name__).splitlines()[0]
    return [
        PutOff(
            plan.read,
            BROKEN_PUT_OFF if is_broken else HELD_PUT_OFF,
            problem[:PROBLEM_LENGTH_MAX],
        )
        for plan in failure.items
    ]


def _say(answer: Submission | Refused | LimitReached) -> str:
    return str(answer)[:PROBLEM_LENGTH_MAX] if isinstance(answer, Exception) else ""


async def _write(ledger: Ledger, tx: Transaction, plans: Sequence[Plan]) -> int:
    """Store what schedules fire that still stand as they were read; returns how many did."""
    held = await schedules.lock_schedules_as_read(tx, [plan.read for plan in plans])
    open_jobs = await schedules.list_open_firings(tx, held)
    # A firing by hand may have come in between: whoever did not know of its job decides again.
    mine = [
        plan
        for plan in plans
        if plan.read.schedule_id in held
        and set(open_jobs.get(plan.read.schedule_id, ())) <= set(plan.open_jobs)
    ]
    await cancel_earlier(ledger, tx, mine)
    firings = [firing for plan in mine for firing in _firings_of(plan)]
    stored = await store_firings(tx, firings, [job for plan in mine for job in plan.jobs])
    missed = [(plan.read.schedule_id, plan.turn.missed) for plan in mine]
    misses = [(schedule_id, each) for schedule_id, each in missed if each is not None]
    if misses:
        await schedules.insert_misses(tx, misses)
    await schedules.advance_schedules(tx, [_advance(plan) for plan in mine])
    now = await tx.now()
    tx.news.missed_firings += sum(each.instants for _, each in misses)
    tx.news.firings += [(each.outcome, (now - each.instant).total_seconds()) for each in stored]
    return len(mine)


def _firings_of(plan: Plan) -> list[NewFiring]:
    schedule_id = plan.read.schedule_id
    return [
        NewFiring(schedule_id, *firing, "fired", job.job_id)
        if isinstance(job, Admitted)
        else NewFiring(
            schedule_id, *firing, "skipped" if isinstance(answer, str) else "refused", problem=job
        )
        for firing, answer, job in zip(plan.turn.firings, plan.answers, plan.jobs, strict=True)
    ]


def _advance(plan: Plan) -> Advance:
    read, next_at = plan.read, plan.turn.next_at
    due = None if next_at is None else due_at(read.name, read.terms, next_at)
    return Advance(read.schedule_id, next_at, due)


async def cancel_earlier(ledger: Ledger, tx: Transaction, plans: Iterable[Plan]) -> None:
    """Ask the jobs of earlier firings to stop, of whatever must not run beside them."""
    wanted = {job_id: plan.read.name for plan in plans for job_id in plan.cancelled}
    for job_id, name in sorted(wanted.items()):
        actor, reason = f"schedule:{name}", "the next firing of its schedule has come"
        await flag_job(ledger, tx, job_id, mode="soft", actor=actor, reason=reason)


async def store_firings(
    tx: Transaction, firings: Sequence[NewFiring], jobs: Iterable[Admitted | str]
) -> list[NewFiring]:
    """Store firings with their jobs; those of instants that have one already are left out."""
    if not firings:
        return []
    new = await schedules.insert_firings(tx, firings)
    by_id = {job.job_id: job for job in jobs if isinstance(job, Admitted)}
    stored = [each for each in firings if each[:2] in new]
    wanted = [each for each in stored if each.job_id is not None]
    if not wanted:
        return stored
    answers = await store_jobs(tx, [by_id[each.job_id] for each in wanted if each.job_id])
    undone = {
        (each.schedule_id, each.instant): changed
        for each, answer in zip(wanted, answers, strict=True)
        if (changed := _undo(each, answer)) is not None
    }
    if undone:
        await schedules.undo_firings(tx, list(undone.values()))
    return [undone.get((each.schedule_id, each.instant), each) for each in stored]


def _undo(firing: NewFiring, answer: Answer) -> NewFiring | None:
    """Say what a firing has come to whose job was not stored; None if it was."""
    if isinstance(answer, Refused):
        problem = str(answer)[:PROBLEM_LENGTH_MAX]
        return firing._replace(outcome="refused", job_id=None, problem=problem)
    if not answer.is_new:
        problem = f"job {answer.job_id} has its unique key"
        return firing._replace(outcome="skipped", job_id=None, problem=problem)
    return None


async def _put_off(_: Ledger, tx: Transaction, put_off: Sequence[PutOff]) -> None:
    await schedules.put_off_schedules(tx, put_off)
