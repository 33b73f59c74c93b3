"""Let others start whose limits have got room, in the transaction in which leases are gone."""

from collections.abc import Sequence

from holdfast.store.database import Transaction
from holdfast.store.tables.work.attempts import AttemptRun
from holdfast.store.tables.work.leases import ReleasedLease, open_freed


async def open_after(tx: Transaction, gone: Sequence[AttemptRun | ReleasedLease]) -> None:
    """Put as many tasks back into line as have got room, and tell who waits for them."""
    held = [each.held for each in gone if each.held is not None]
    if not held:
        return
    slots = [each.slots or 1 for each in gone if each.held is not None]
    for queue, job_id, index in await open_freed(tx, held, slots):
        tx.news.add_opened(queue, job_id, index)
