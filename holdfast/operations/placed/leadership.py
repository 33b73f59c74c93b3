"""One leader among the servers: a row with an epoch, and transactions that hold it to its term."""

from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_CLUSTER = load_statements("cluster")
TERM = timedelta(seconds=10)


class Term(NamedTuple):
    """One leader's time in office."""

    leader: str
    epoch: int


class Deposed(Unavailable):
    """Another server leads by now; nothing was read or written."""


async def lead(ledger: Ledger, leader: str, term: timedelta = TERM) -> Term | None:
    """Renew a term, or begin one if nobody leads; None while somebody else does."""
    async with ledger.database.transaction() as tx:
        row = await tx.fetch_one(_CLUSTER["renew_term"], leader=leader, term=term)
        if row is None:
            row = await tx.fetch_one(_CLUSTER["begin_term"], leader=leader, term=term)
    return None if row is None else Term(leader, row[0])


async def resign(ledger: Ledger, leader: str) -> None:
    """Let the next one begin at once."""
    async with ledger.database.transaction() as tx:
        await tx.fetch(_CLUSTER["resign"], leader=leader)


async def hold_term(tx: Transaction, term: Term) -> None:
    """Make sure that this transaction belongs to the term. Raises Deposed."""
    row = await tx.fetch_one(_CLUSTER["hold_epoch"], leader=term.leader, epoch=term.epoch)
    if row is None:
        raise Deposed(f"the term {term.epoch} of {term.leader} is over")
