"""A loss that an outage has brought about is told apart from others."""

from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.operations.ending.outages import read_outage
from holdfast.operations.ending.reap import reap
from tests.clock import Clock


async def test_what_ran_out_while_nobody_watched_is_free_before_the_reaper_has_passed(
    ledger: Ledger, clock: Clock
) -> None:
    await reap(ledger)
    async with ledger.database.transaction() as tx:
        before = await tx.now()
    await clock.advance(70)
    async with ledger.database.transaction() as tx:
        is_free = await read_outage(tx)
    assert is_free(before + timedelta(seconds=60))
    assert not is_free(before - timedelta(seconds=1))
    assert not is_free(before + timedelta(seconds=80))  # it has not run out yet


async def test_without_an_outage_nothing_is_free(ledger: Ledger, clock: Clock) -> None:
    await reap(ledger)
    await clock.advance(5)
    async with ledger.database.transaction() as tx:
        now = await tx.now()
        is_free = await read_outage(tx)
    assert not is_free(now - timedelta(seconds=1))
