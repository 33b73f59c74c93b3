"""The table of idempotency keys, with the answers that were given under them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_KEYS = load_statements("access/keys")


class UsedKey(NamedTuple):
    """What was asked under a key, and what was answered, a JSON text."""

    request_digest: bytes
    answer: str | None


async def take_key(tx: Transaction, scope: str, key: str, *, request_digest: bytes) -> bool:
    """Take a key for the rest of the transaction; False if it was used before."""
    taken = await tx.fetch_one(
        _KEYS["take_key"], scope=scope, key=key, request_digest=request_digest
    )
    return taken is not None


class TakenKey(NamedTuple):
    """A key, and what is asked under it."""

    scope: str
    key: str
    request_digest: bytes


async def take_keys(tx: Transaction, wanted: Sequence[TakenKey]) -> bool:
    """Take keys for the rest of the transaction; False if one of them was used before."""
    rows = await tx.fetch(
        _KEYS["take_keys"],
        scopes=[key.scope for key in wanted],
        keys=[key.key for key in wanted],
        request_digests=[key.request_digest for key in wanted],
    )
    return len(rows) == len(wanted)


async def find_key(tx: Transaction, scope: str, key: str) -> UsedKey | None:
    """Find what a key was used for."""
    row = await tx.fetch_one(_KEYS["find_key"], scope=scope, key=key)
    return None if row is None else UsedKey._make(row)


async def keep_answer(tx: Transaction, scope: str, key: str, *, answer: str) -> None:
    """Store what was answered under a key that this transaction has taken."""
    await tx.fetch(_KEYS["keep_answer"], scope=scope, key=key, answer=answer)


async def prune_keys(tx: Transaction, *, older_than: timedelta, batch_max: int) -> int:
    """Forget old keys; returns how many."""
    rows = await tx.fetch(_KEYS["prune_keys"], older_than=older_than, batch_max=batch_max)
    return len(rows)
