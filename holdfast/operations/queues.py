"""Pause and resume queues: a paused queue keeps its tasks and hands none out."""

from holdfast.ledger.ledger import Ledger
from holdfast.rules.submitting.submission import check_queue, check_text
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.limits import queues


async def pause_queue(ledger: Ledger, queue: str, *, actor: str) -> None:
    """Hand out nothing more from a queue; pausing it twice is harmless."""
    check_queue(queue)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        if await queues.pause_queue(tx, queue, actor=actor):
            await record_actions(tx, [NewAction(actor, "pause_queue", "queue", queue)])


async def resume_queue(ledger: Ledger, queue: str, *, actor: str) -> None:
    """Hand out tasks of a queue again; resuming one that is not paused is harmless."""
    check_queue(queue)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        if await queues.resume_queue(tx, queue):
            await record_actions(tx, [NewAction(actor, "resume_queue", "queue", queue)])
