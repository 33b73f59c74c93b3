"""Pause and resume queues: a paused queue keeps its tasks and hands none out."""

from holdfast.ledger.ledger import Ledger
from holdfast.rules.submission import check_queue, check_text
from holdfast.store.statements import load_statements

_READY = load_statements("ready")


async def pause_queue(ledger: Ledger, queue: str, *, actor: str) -> None:
    """Hand out nothing more from a queue; pausing it twice is harmless."""
    _check(queue)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        await tx.fetch(_READY["pause_queue"], queue=queue, actor=actor)


async def resume_queue(ledger: Ledger, queue: str) -> None:
    """Hand out tasks of a queue again; resuming one that is not paused is harmless."""
    _check(queue)
    async with ledger.database.transaction() as tx:
        await tx.fetch(_READY["resume_queue"], queue=queue)


def _check(queue: str) -> None:
    check_queue(queue)
