"""The table of idempotency keys through its functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.tables.keys import UsedKey, find_key, keep_answer, prune_keys, take_key


async def test_a_key_is_taken_once_and_keeps_its_answer(tx: Transaction) -> None:
    assert await find_key(tx, "s", "k") is None
    assert await take_key(tx, "s", "k", request_digest=b"d")
    assert not await take_key(tx, "s", "k", request_digest=b"e")
    assert await find_key(tx, "s", "k") == UsedKey(b"d", None)
    await keep_answer(tx, "s", "k", answer="[1]")
    assert await find_key(tx, "s", "k") == UsedKey(b"d", "[1]")
    assert await prune_keys(tx, older_than=timedelta(hours=1), batch_max=9) == 0
    assert await prune_keys(tx, older_than=-timedelta(hours=1), batch_max=9) == 1
