"""A server's inner half without chores: nobody looks again, so whoever is woken was rung for."""

from collections.abc import AsyncIterator

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.services.runtime import Runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.store.database import Database
from tests.fleet import Fleet


@pytest.fixture
async def quiet(ledger: Ledger, database: Database) -> AsyncIterator[Runtime]:
    """A runtime that only does what it is asked."""
    runtime = Runtime(ledger, database, WakeUps(Doorbells()))
    yield runtime
    await runtime.stop()
    await runtime.writers.stop()


@pytest.fixture
async def fleet(ledger: Ledger) -> AsyncIterator[Fleet]:
    """Workers that are called over real connections."""
    async with Fleet(ledger) as fleet:
        yield fleet
