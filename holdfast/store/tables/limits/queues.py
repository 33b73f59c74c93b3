"""The table of paused queues."""

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_QUEUES = load_statements("limits/queues")


async def pause_queue(tx: Transaction, queue: str, *, actor: str) -> bool:
    """Note that a queue is paused; a second time changes nothing, and is False."""
    return bool(await tx.fetch(_QUEUES["pause_queue"], queue=queue, actor=actor))


async def resume_queue(tx: Transaction, queue: str) -> bool:
    """Note that a queue is not paused any more; False if it was not."""
    return bool(await tx.fetch(_QUEUES["resume_queue"], queue=queue))
