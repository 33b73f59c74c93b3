"""End placed attempts that never arrived on their workers, so that they are placed again at once.

Only what is known not to be there: no call that offered one can have reached the worker, or its
answers to two calls in a row did not name it. A worker refuses calls that are older than the last
one it has answered, and the leader makes no new one before this is written: so none of them can
bring it any more.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.attempts import LockedLease
from holdfast.model.work.fence import Fence
from holdfast.operations.ending.attempts import end_attempts
from holdfast.operations.placed.leadership import Term, hold_term
from holdfast.rules.ending import Judged
from holdfast.rules.ending import end_undelivered as judge_undelivered
from holdfast.store.database import Transaction
from holdfast.store.tables.placed.leases import list_unacknowledged


class Undelivered(NamedTuple):
    """An attempt, and the worker that does not have it."""

    worker_id: str
    fence: Fence


async def find_never_offered(
    ledger: Ledger, worker_id: str, offered: frozenset[Fence]
) -> frozenset[Fence]:
    """Find what was placed on a worker and is not among all that it may have been offered.

    It must be closed for new tasks by now, as a failing one is, or more are placed there unseen.
    """
    return frozenset(await list_unacknowledged(ledger.database, worker_id)) - offered


async def end_undelivered(
    ledger: Ledger, term: Term, attempts: Sequence[Undelivered]
) -> list[bool]:
    """End attempts and release their leases; says which have ended by that. Raises Deposed."""
    return await ledger.write(_end, term, attempts=attempts)


async def _end(
    ledger: Ledger, tx: Transaction, term: Term, *, attempts: Sequence[Undelivered]
) -> list[bool]:
    await hold_term(tx, term)
    placed = {(item.fence, item.worker_id) for item in attempts}

    def judge(lease: LockedLease, _: TaskTerms) -> Judged:
        return judge_undelivered(lease) if (lease.fence, lease.worker_id) in placed else None

    moves = Moves()
    task_ids = {item.fence.task_id for item in attempts}
    ended = await end_attempts(ledger, tx, task_ids, judge=judge, moves=moves)
    await apply_moves(tx, moves)
    return [item.fence in ended.ends or item.fence in ended.released for item in attempts]
