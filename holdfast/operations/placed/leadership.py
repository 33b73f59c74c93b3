"""One leader among the servers: a row with an epoch, and transactions that hold it to its term."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Transaction
from holdfast.store.tables.placed import leadership

TERM = timedelta(seconds=10)


class Term(NamedTuple):
    """One leader's time in office."""

    leader: str
    epoch: int


class Deposed(Unavailable):
    """Another server leads by now; nothing was read or written."""


def _is_never_gone(_: str) -> bool:
    return False


async def lead(
    ledger: Ledger,
    leader: str,
    term: timedelta = TERM,
    *,
    is_gone: Callable[[str], bool] = _is_never_gone,
) -> Term | None:
    """Renew a term, or begin one if nobody leads; None while somebody else does.

    Who `is_gone` leads no more, though the term has not run out.
    """
    async with ledger.database.transaction() as tx:
        epoch = await leadership.renew_term(tx, leader, term)
        if epoch is None:
            epoch = await leadership.begin_term(tx, leader, term)
        if epoch is None:
            before = await leadership.find_leader(tx)
            if before is not None and is_gone(before):
                epoch = await leadership.begin_term(tx, leader, term, gone=before)
    return None if epoch is None else Term(leader, epoch)


async def resign(ledger: Ledger, leader: str) -> None:
    """Let the next one begin at once."""
    async with ledger.database.transaction() as tx:
        await leadership.resign(tx, leader)


async def hold_term(tx: Transaction, term: Term) -> None:
    """Make sure that this transaction belongs to the term. Raises Deposed."""
    if not await leadership.hold_epoch(tx, term.leader, term.epoch):
        raise Deposed(f"the term {term.epoch} of {term.leader} is over")
