"""Repair what a race or a clock has left behind limits, and forget buckets that nobody uses."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.tables.limits import limits
from holdfast.store.tables.limits.limits import DroppedGated, Followed, Tended

BUCKETS_MAX = 1000
CANCELLED_MAX = 5000
_FIRST = TaskId(0, -1)


class Gates:
    """Walks through the buckets that somebody waits behind, a stretch a turn."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = 0

    async def look(self) -> bool:
        """Let go who may start; returns whether there may be more to do at once."""
        found = await self._ledger.write(_tend, self._after)
        self._after = found.last_bucket_id or 0
        return found.last_bucket_id is not None


async def _tend(_: Ledger, tx: Transaction, after: int) -> Tended:
    found = await limits.tend_gated(tx, after, buckets_max=BUCKETS_MAX)
    tx.news.add_all_opened(found.queues, found.job_ids, found.task_indexes)
    return found


class Buckets:
    """Walks through all buckets, a stretch a turn, and drops those that are as new."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = 0

    async def clear(self) -> bool:
        """Drop what is idle in the next stretch; returns whether there may be more."""
        self._after = await self._ledger.write(_clear, self._after)
        return self._after > 0


async def _clear(_: Ledger, tx: Transaction, after: int) -> int:
    return await limits.drop_idle_buckets(tx, after, buckets_max=BUCKETS_MAX) or 0


class Cancelled:
    """Walks through what is gated, a stretch a turn, for tasks that were cancelled meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = _FIRST

    async def clear(self) -> bool:
        """Drop those of the next stretch; if it were many, there may be more to do at once."""
        found = await self._ledger.write(_drop_cancelled, self._after)
        self._after = _FIRST
        if found.job_id is not None and found.task_index is not None:
            self._after = TaskId(found.job_id, found.task_index)
        return self._after != _FIRST and found.dropped > 0


async def _drop_cancelled(_: Ledger, tx: Transaction, after: TaskId) -> DroppedGated:
    return await limits.drop_stale_gated(tx, after, batch_max=CANCELLED_MAX)


class Clocks:
    """Walks through all buckets, a stretch a turn, for rates that are ahead of the clock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = 0

    async def look(self) -> bool:
        """Bring back those of the next stretch; where one is, the others are, too."""
        found = await self._ledger.write(_follow, self._after)
        self._after = found.last_bucket_id or 0
        return found.last_bucket_id is not None and found.num_ahead > 0


async def _follow(_: Ledger, tx: Transaction, after: int) -> Followed:
    return await limits.follow_clock(tx, after, buckets_max=BUCKETS_MAX)
