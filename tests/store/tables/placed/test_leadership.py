"""The leader's row through its functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.tables.placed.leadership import begin_term, hold_epoch, renew_term, resign

TERM = timedelta(seconds=10)


async def test_a_term_begins_holds_and_ends(tx: Transaction) -> None:
    assert await renew_term(tx, "me", TERM) is None
    epoch = await begin_term(tx, "me", TERM)
    assert epoch is not None
    assert await renew_term(tx, "me", TERM) == epoch
    assert await begin_term(tx, "you", TERM) is None
    assert await hold_epoch(tx, "me", epoch)
    assert not await hold_epoch(tx, "you", epoch)
    await resign(tx, "me")
    assert await begin_term(tx, "you", TERM) == epoch + 1
