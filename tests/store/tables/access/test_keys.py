"""The table of idempotency keys through its functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.tables.access.keys import (
    TakenKey,
    UsedKey,
    find_key,
    keep_answer,
    prune_keys,
    take_key,
    take_keys,
)


async def test_a_key_is_taken_once_and_keeps_its_answer(tx: Transaction) -> None:
    assert await find_key(tx, "s", "k") is None
    assert await take_key(tx, "s", "k", request_digest=b"d")
    assert not await take_key(tx, "s", "k", request_digest=b"e")
    assert await find_key(tx, "s", "k") == UsedKey(b"d", None)
    await keep_answer(tx, "s", "k", answer="[1]")
    assert await find_key(tx, "s", "k") == UsedKey(b"d", "[1]")
    assert await prune_keys(tx, older_than=timedelta(hours=1), batch_max=9) == 0
    assert await prune_keys(tx, older_than=-timedelta(hours=1), batch_max=9) == 1


async def test_of_several_keys_each_must_be_free(tx: Transaction) -> None:
    first, second, third = (TakenKey("s", key, b"d") for key in "abc")
    assert await take_keys(tx, [first, second])
    assert not await take_keys(tx, [second, third])
    assert await find_key(tx, "s", "a") == UsedKey(b"d", None)
