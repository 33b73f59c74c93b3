"""Set, delete, pause and resume schedules, as operators do."""

from datetime import datetime

import msgspec

from holdfast.errors import NotFound, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.actions import ActionKind
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import Submission
from holdfast.rules.schedules.checks import (
    check_schedule_name,
    check_template,
    complete_terms,
    submission_at,
)
from holdfast.rules.schedules.instants import due_at, next_instant
from holdfast.rules.submitting.keys import check_key
from holdfast.rules.submitting.order import refuse_local_names
from holdfast.rules.submitting.submission import check_text, complete_submission
from holdfast.store.database import JobChanged, Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.submitting import schedules
from holdfast.store.tables.submitting.schedules import NewSchedule, ReadSchedule

SCHEDULES_MAX = 1_000_000


async def set_schedule(
    ledger: Ledger,
    name: str,
    terms: ScheduleTerms,
    *,
    submission: Submission,
    actor: str,
    if_version: int | None = None,
) -> bool:
    """Set what a schedule submits and when; says whether it is new. A repeat changes nothing.

    With `if_version` only if that is still its version, 0 if there was none. Where the times have
    changed, the first instant is the next one from now.
    """
    check_schedule_name(name)
    check_text("actor", actor, 256)
    check_job(ledger, name, submission)
    return await ledger.write(
        _set, name, terms=terms, submission=submission, actor=actor, if_version=if_version
    )


def check_job(ledger: Ledger, name: str, submission: Submission) -> None:
    """Refuse a job that no firing could submit."""
    refuse_local_names(submission.spec)
    check_template(submission, tasks_max=ledger.limits.batch_tasks_max)
    sample = submission_at(submission, name, datetime.fromisoformat("2000-01-01T00:00:00Z"))
    check_key(complete_submission(sample, ledger.limits, announced=ledger.policies.functions))


async def _set(
    _: Ledger,
    tx: Transaction,
    name: str,
    *,
    terms: ScheduleTerms,
    submission: Submission,
    actor: str,
    if_version: int | None,
) -> bool:
    before = await schedules.lock_schedule(tx, name)
    if before is not None and before.declared_by is not None:
        raise Refused(
            f"schedule {name} is declared in code, by {before.declared_by}; change it there"
        )
    version = 0 if before is None else before.version
    if if_version is not None and version != if_version:
        raise Refused(
            f"schedule {name} is at version {version}, not {if_version}; read it and decide again"
        )
    is_changed = await store(tx, name, terms, before=before, submission=submission, actor=actor)
    if is_changed:
        facts = {"version": version + 1}
        await record_actions(tx, [NewAction(actor, "set_schedule", "schedule", name, facts=facts)])
    return before is None


async def store(
    tx: Transaction,
    name: str,
    terms: ScheduleTerms,
    *,
    before: ReadSchedule | None,
    submission: Submission,
    actor: str,
    declared_by: str | None = None,
) -> bool:
    """Store a schedule in the place of the one there was; False if it is the same."""
    now = await tx.now()
    if before is not None and terms.every is not None and terms.start_at is None:
        # It goes on counting from where it began.
        terms = msgspec.structs.replace(terms, start_at=_start_of(before, terms))
    terms = complete_terms(terms, now)
    is_resting = before is not None and before.is_paused
    same_times = before is not None and not before.is_retired and before.terms == terms
    if same_times and before is not None:
        if before.template == submission:
            return False
        next_at = before.next_at
    else:
        next_at = None if is_resting else next_instant(terms, now)
    new = NewSchedule(
        msgspec.json.encode(submission.spec).decode(),
        None if submission.inputs is None else f"[{','.join(submission.inputs)}]",
        submission.is_placed,
        msgspec.json.encode(terms).decode(),
        actor,
        next_at,
        None if next_at is None else due_at(name, terms, next_at),
    )
    if before is not None:
        await schedules.change_schedule(tx, before.schedule_id, new)
        return True
    schedule_id = await schedules.insert_schedule(tx, name, new, declared_by=declared_by)
    if schedule_id is None:
        raise JobChanged(f"schedule {name} was made at the same moment")
    # Of some that come at the same moment, each may be the last.
    if await schedules.has_too_many(tx, schedule_id, SCHEDULES_MAX):
        raise Refused(
            f"name: {name} would be one schedule more than {SCHEDULES_MAX:,}; delete some that "
            "nobody needs, or have one submit a job of several tasks"
        )
    return True


def _start_of(before: ReadSchedule, terms: ScheduleTerms) -> datetime | None:
    known = before.terms
    return known.start_at if known.every == terms.every else None


async def delete_schedule(ledger: Ledger, name: str, *, actor: str) -> bool:
    """Delete a schedule; what it has submitted goes on. False if there was none."""
    check_schedule_name(name)
    check_text("actor", actor, 256)
    return await ledger.write(_delete, name, actor=actor)


async def _delete(_: Ledger, tx: Transaction, name: str, *, actor: str) -> bool:
    found = await schedules.lock_schedule(tx, name)
    if found is None:
        return False
    if found.declared_by is not None and not found.is_retired:
        raise Refused(
            f"schedule {name} is declared in code, by {found.declared_by}; take it out there, or "
            "pause it"
        )
    await schedules.delete_schedule(tx, found.schedule_id)
    await _record(tx, actor, "delete_schedule", name=name)
    return True


async def pause_schedule(ledger: Ledger, name: str, *, actor: str) -> bool:
    """Have a schedule fire no more; what passes meanwhile is not missed. False if it was paused."""
    check_schedule_name(name)
    check_text("actor", actor, 256)
    return await ledger.write(_pause, name, actor=actor)


async def _pause(_: Ledger, tx: Transaction, name: str, *, actor: str) -> bool:
    found = await get_locked(tx, name)
    if found.is_paused:
        return False
    await schedules.pause_schedule(tx, found.schedule_id, actor=actor)
    await _record(tx, actor, "pause_schedule", name=name)
    return True


async def resume_schedule(ledger: Ledger, name: str, *, actor: str) -> bool:
    """Have a schedule fire again, from its next instant on; False if it was not paused."""
    check_schedule_name(name)
    check_text("actor", actor, 256)
    return await ledger.write(_resume, name, actor=actor)


async def _resume(_: Ledger, tx: Transaction, name: str, *, actor: str) -> bool:
    found = await get_locked(tx, name)
    if not found.is_paused:
        return False
    terms = found.terms
    next_at = None if found.is_retired else next_instant(terms, await tx.now())
    due = None if next_at is None else due_at(name, terms, next_at)
    await schedules.resume_schedule(tx, found.schedule_id, next_at=next_at, due_at=due)
    await _record(tx, actor, "resume_schedule", name=name)
    return True


async def get_locked(tx: Transaction, name: str) -> ReadSchedule:
    """Lock a schedule, or raise NotFound."""
    found = await schedules.lock_schedule(tx, name)
    if found is None:
        raise NotFound("schedule", name)
    return found


async def _record(tx: Transaction, actor: str, action: ActionKind, *, name: str) -> None:
    await record_actions(tx, [NewAction(actor, action, "schedule", name)])
