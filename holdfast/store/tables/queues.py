"""The table of paused queues."""

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_READY = load_statements("ready")


async def pause_queue(tx: Transaction, queue: str, *, actor: str) -> None:
    """Note that a queue is paused; a second time changes nothing."""
    await tx.fetch(_READY["pause_queue"], queue=queue, actor=actor)


async def resume_queue(tx: Transaction, queue: str) -> None:
    """Note that a queue is not paused any more."""
    await tx.fetch(_READY["resume_queue"], queue=queue)
