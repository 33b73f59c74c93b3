"""Notes beside the log: user events and progress, with a time to live and no place in the order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.events import USER_PREFIX
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId
from holdfast.rules.submitting.submission import check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.output.notes import NewNote, insert_notes
from holdfast.store.tables.work.leases import find_leases, has_live_lease

TIME_TO_LIVE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Note:
    """What user code or a worker has to say: a kind, and a JSON text."""

    kind: str
    payload: str | None = None


_HEARTBEAT = Note("heartbeat")


async def add_notes(tx: Transaction, notes: Sequence[tuple[TaskId, int, Note]]) -> None:
    """Store notes of attempts."""
    if notes:
        new = [
            NewNote(task_id, attempt, note.kind, note.payload) for task_id, attempt, note in notes
        ]
        await insert_notes(tx, new, time_to_live=TIME_TO_LIVE)


async def add_user_event(
    ledger: Ledger, fence: Fence, event: Note, *, idempotency_key: str | None = None
) -> None:
    """Store what user code has to say while its attempt runs; LeaseConflict if that has ended."""
    check_fence(fence)
    check_note(event, ledger.limits, "")
    request = [str(fence.task_id), fence.attempt, event.kind, event.payload]
    keyed = request_key("task-event", str(fence.task_id), idempotency_key, request=request)
    await write_once(ledger, keyed, _add_user_event, fence, returns=bool, event=event)


async def _add_user_event(_: Ledger, tx: Transaction, fence: Fence, *, event: Note) -> bool:
    if not await has_live_lease(tx, fence):
        raise LeaseConflict(fence.task_id, "the attempt has ended; the event is not kept")
    await add_notes(tx, [(fence.task_id, fence.attempt, as_user_event(event))])
    return True


def as_user_event(event: Note) -> Note:
    """Name a note of user code so that it is never taken for one of ours."""
    return replace(event, kind=USER_PREFIX + event.kind)


async def note_progress(
    ledger: Ledger, progress: Sequence[tuple[Fence, float, str | None]]
) -> None:
    """Note how far attempts have got; whoever holds no lease is not listened to."""
    for _, fraction, message in progress:
        check_progress(fraction, message, ledger.limits)
    if not progress:
        return
    async with ledger.database.transaction() as tx:
        held = await find_leases(tx, [fence for fence, _, _ in progress])
        await add_notes(
            tx,
            [
                (fence.task_id, fence.attempt, _progress_note(fraction, message))
                for fence, fraction, message in progress
                if fence in held
            ],
        )


async def note_beats(
    ledger: Ledger, tx: Transaction, renewed: Sequence[tuple[TaskId, int, datetime]]
) -> None:
    """Note renewals, of jobs that asked for verbose events; of most jobs, nothing."""
    verbose = await ledger.specs.list_verbose(tx, {task_id.job_id for task_id, _, _ in renewed})
    if verbose:
        await add_notes(
            tx,
            [
                (task_id, attempt, note)
                for task_id, attempt, expires_at in renewed
                if task_id.job_id in verbose
                for note in (_HEARTBEAT, _renewal(expires_at))
            ],
        )


def _renewal(expires_at: datetime) -> Note:
    until = {"lease_expires_at_ms": int(expires_at.timestamp() * 1000)}
    return Note("lease_renewed", msgspec.json.encode(until).decode())


def check_progress(fraction: float, message: str | None, limits: Limits) -> None:
    """Refuse progress that cannot be stored."""
    if not 0.0 <= fraction <= 1.0:
        raise Invalid("progress.fraction", f"{fraction!r} is not from 0 to 1")
    check_text("progress.message", message or "", limits.text_length_max)


def _progress_note(fraction: float, message: str | None) -> Note:
    said = {"fraction": fraction, "message": message}
    return Note("progress", msgspec.json.encode(said).decode())


def check_note(note: Note, limits: Limits, prefix: str = "events.") -> None:
    """Refuse a note of user code that cannot be stored; the fields are named with a prefix."""
    if not note.kind:
        raise Invalid(f"{prefix}kind", "is empty; say what has happened, such as loaded")
    check_text(f"{prefix}kind", note.kind, limits.text_length_max)
    if note.payload is not None:
        check_json(f"{prefix}payload", note.payload, limits.input_bytes_max)
