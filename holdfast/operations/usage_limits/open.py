"""Put tasks back in line whose limit is no more, some at a time."""

from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Transaction
from holdfast.store.tables.limits import usage_limits

BATCH_MAX = 1000
# Of buckets with tasks behind them, so many are looked at in a turn.
BUCKETS_MAX = 10_000


class Forgotten:
    """Walks through the buckets that somebody waits behind, a stretch a turn."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = 0

    async def look(self) -> bool:
        """Put back in line what nothing would let through; returns whether there may be more."""
        opened, last = await self._ledger.write(_open, self._after, batch_max=BATCH_MAX)
        if opened < BATCH_MAX:
            self._after = last or 0
        return opened == BATCH_MAX


async def open_forgotten(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Put the first tasks back in line that nothing would let through any more: how many."""
    after: int | None = 0
    while after is not None:
        opened, after = await ledger.write(_open, after, batch_max=batch_max)
        if opened:
            return opened
    return 0


async def _open(
    _: Ledger, tx: Transaction, after: int, *, batch_max: int
) -> tuple[int, int | None]:
    """Look at a stretch of buckets; returns how many were opened, and its last, if not the end."""
    stretch = await usage_limits.list_gated_buckets(tx, after=after, buckets_max=BUCKETS_MAX)
    gone = [bucket.bucket_id for bucket in stretch if bucket.is_gone]
    opened = await usage_limits.open_forgotten(tx, gone, batch_max=batch_max) if gone else []
    for task_id, queue in opened:
        tx.news.add_ready(queue, task_id)
    return len(opened), stretch[-1].bucket_id if len(stretch) == BUCKETS_MAX else None
