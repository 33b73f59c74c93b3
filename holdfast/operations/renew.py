"""Renew leases, and tell their holders what is asked of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.errors import LeaseConflict, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import CancelMode
from holdfast.operations.notes import note_beats
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.work.leases import find_leases, renew_leases

_ROUNDS_MAX = 20


class Renewed(NamedTuple):
    """The lease holds until then; `cancel` is a pending request to stop."""

    task_id: TaskId
    lease_expires_at: datetime
    lease_remaining: timedelta
    cancel: CancelMode | None = None
    cancel_remaining: timedelta | None = None


Answer = Renewed | Refused


async def renew(ledger: Ledger, fences: Sequence[Fence]) -> list[Answer]:
    """Renew leases; a lease that is gone or somebody else's is a conflict.

    A row that somebody holds is tried again, never answered as a conflict.
    """
    answers: dict[Fence, Answer] = {}
    for fence in fences:
        try:
            check_fence(fence)
        except Refused as refused:
            answers[fence] = refused
    open_fences = sorted({fence for fence in fences if fence not in answers})
    for _ in range(_ROUNDS_MAX):
        if not open_fences:
            return [answers[fence] for fence in fences]
        async with ledger.database.transaction() as tx:
            answers |= await renew_free(ledger, tx, open_fences)
        open_fences = [fence for fence in open_fences if fence not in answers]
    raise LockTimeout("leases are held by another transaction; renew again")


async def renew_free(ledger: Ledger, tx: Transaction, fences: list[Fence]) -> dict[Fence, Answer]:
    """Renew leases; one whose row somebody holds is left out. Fences come checked and sorted."""
    leases = await renew_leases(tx, fences)
    answers: dict[Fence, Answer] = {}
    for job_id, task_index, attempt, token, expires_at, now, ending, cancelled, deadline in leases:
        task_id = TaskId(job_id, task_index)
        cancel: CancelMode | None = "hard" if ending else "soft" if cancelled else None
        answers[Fence(task_id, attempt, token)] = Renewed(
            task_id,
            expires_at,
            expires_at - now,
            cancel,
            max(deadline - now, timedelta()) if cancel == "soft" and deadline else None,
        )
    left = [fence for fence in fences if fence not in answers]
    if left:
        held = await find_leases(tx, left)
        for fence in left:
            if fence not in held:
                answers[fence] = LeaseConflict(fence.task_id, "the lease is lost; stop the attempt")
    beats = [
        (fence.task_id, fence.attempt, answer.lease_expires_at)
        for fence, answer in answers.items()
        if isinstance(answer, Renewed)
    ]
    await note_beats(ledger, tx, beats)
    return answers
