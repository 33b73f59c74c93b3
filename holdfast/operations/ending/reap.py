"""The lease reaper: ends what has run out of time.

One pass over the leases serves three deadlines: a lease that ran out, a run that took too long, and
a soft cancel whose grace is over. The first proves that the process is gone, by the worker's own
clock; the other two only end the state, and the lease lives on as ending.
"""

from datetime import datetime
from functools import partial

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.parts import write_chosen
from holdfast.model.work.ids import TaskId
from holdfast.operations.ending.attempts import end_attempts
from holdfast.rules.ending import end_overdue
from holdfast.rules.outage import Watch, is_waiting, next_watch
from holdfast.store.database import Transaction
from holdfast.store.tables.upkeep.reaper import lock_reaper, read_reaper, record_reaper_pass
from holdfast.store.tables.work.leases import list_reapable

BATCH_MAX = 500


async def reap(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Make one pass; returns how many attempts ended or were released."""
    watch = await ledger.write(_take_note)
    if watch is None:  # another server is at it this moment
        return 0
    is_spared = is_waiting(watch, watch.last_pass_at)
    choose = partial(list_reapable, waiting=is_spared, batch_max=batch_max)
    return await write_chosen(ledger, choose, _end_overdue, watch=watch)


async def _take_note(_: Ledger, tx: Transaction) -> Watch | None:
    noted = await lock_reaper(tx)
    if noted is None:
        return None
    watch = next_watch(noted.watch, noted.now)
    await record_reaper_pass(tx, watch)
    return watch


async def _end_overdue(
    ledger: Ledger, tx: Transaction, candidates: list[TaskId], *, watch: Watch
) -> int:
    moves = Moves()
    # A lease that runs out while this waits for its lock is left for the next pass.
    judge = partial(end_overdue, watch=watch, now=await tx.now())
    ends, released = await end_attempts(ledger, tx, candidates, judge=judge, moves=moves)
    await apply_moves(tx, moves)
    tx.news.expired += len(released) + sum(end.released for end in ends.values())
    return len(ends) + len(released)


async def read_outage(tx: Transaction) -> tuple[Watch, datetime]:
    """Read what is known of an outage now; a worker may report before the reaper has passed."""
    noted = await read_reaper(tx)
    return next_watch(noted.watch, noted.now), noted.now
