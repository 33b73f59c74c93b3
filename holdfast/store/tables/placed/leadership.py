"""The one row of the leader: who leads, in which epoch, until when."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_CLUSTER = load_statements("workers/cluster")


async def renew_term(tx: Transaction, leader: str, term: timedelta) -> int | None:
    """Lengthen the term of a leader and give its epoch; None if it does not lead."""
    row = await tx.fetch_one(_CLUSTER["renew_term"], leader=leader, term=term)
    return None if row is None else row[0]


async def begin_term(
    tx: Transaction, leader: str, term: timedelta, *, gone: str | None = None
) -> int | None:
    """Begin a term if nobody leads, or one that is gone, and give its epoch.

    Waits for those who hold the last term.
    """
    row = await tx.fetch_one(_CLUSTER["begin_term"], leader=leader, term=term, gone=gone)
    return None if row is None else row[0]


async def find_leader(tx: Transaction) -> str | None:
    """Find who has led last and has not resigned."""
    row = await tx.fetch_one(_CLUSTER["find_leader"])
    return None if row is None else row[0]


async def resign(tx: Transaction, leader: str) -> None:
    """End the term of a leader."""
    await tx.fetch(_CLUSTER["resign"], leader=leader)


async def hold_epoch(tx: Transaction, leader: str, epoch: int) -> bool:
    """Hold a term, so that the next one begins after this transaction; False if it is over."""
    return await tx.fetch_one(_CLUSTER["hold_epoch"], leader=leader, epoch=epoch) is not None
