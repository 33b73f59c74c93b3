"""The one row of the leader: who leads, in which epoch, until when."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_CLUSTER = load_statements("cluster")


async def renew_term(tx: Transaction, leader: str, term: timedelta) -> int | None:
    """Lengthen the term of a leader and give its epoch; None if it does not lead."""
    row = await tx.fetch_one(_CLUSTER["renew_term"], leader=leader, term=term)
    return None if row is None else row[0]


async def begin_term(tx: Transaction, leader: str, term: timedelta) -> int | None:
    """Begin a term if nobody leads, and give its epoch; waits for those who hold the last one."""
    row = await tx.fetch_one(_CLUSTER["begin_term"], leader=leader, term=term)
    return None if row is None else row[0]


async def resign(tx: Transaction, leader: str) -> None:
    """End the term of a leader."""
    await tx.fetch(_CLUSTER["resign"], leader=leader)


async def hold_epoch(tx: Transaction, leader: str, epoch: int) -> bool:
    """Hold a term, so that the next one begins after this transaction; False if it is over."""
    return await tx.fetch_one(_CLUSTER["hold_epoch"], leader=leader, epoch=epoch) is not None
