"""The books of processes that serve queues and placed work: what claims and placements both take.

A book is kept by nobody: what is taken follows from leases. Whoever takes more holds the row of the
worker that is called, until its leases are committed; so two never take the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.workers.resources import Capacity, subtract
from holdfast.rules.placement.booked import add_up
from holdfast.rules.placement.snapshot import shape_of
from holdfast.store.database import Transaction
from holdfast.store.tables.workers.workers import hold_books, list_booked_of_books

_decode_capacity = msgspec.json.Decoder(Capacity).decode


class Balance(NamedTuple):
    """What is free by a book, and what there is in all."""

    free: Capacity = Capacity()
    whole: Capacity = Capacity()


async def hold_balances(ledger: Ledger, tx: Transaction, books: set[str]) -> dict[str, Balance]:
    """Hold books, and say what is free.

    Nothing is by a book whose worker is not called, or that somebody else takes from right now.
    """
    if not books:
        return {}
    balances = dict.fromkeys(books, Balance())
    held = await hold_books(tx, books)
    used = await count_used(ledger, tx, {book for book, _ in held})
    for book, text in held:
        whole = _decode_capacity(text)
        balances[book] = Balance(subtract(whole, used[book]), whole)
    return balances


async def count_used(ledger: Ledger, tx: Transaction, books: Iterable[str]) -> dict[str, Capacity]:
    """Count what is taken by books that are held."""
    booked = await list_booked_of_books(tx, books)
    stored = await ledger.specs.load(tx, {item.job_id for item in booked})
    return add_up((item.book, shape_of(stored[item.job_id].spec), item.leases) for item in booked)
