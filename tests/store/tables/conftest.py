"""The tables' tests: a ledger that is told in domain words, and one open transaction."""

from collections.abc import AsyncIterator

import pytest

from holdfast.store.database import Database, Transaction
from tests.world import World


@pytest.fixture
async def tx(database: Database, world: World) -> AsyncIterator[Transaction]:
    """A transaction that begins after the test's clock is in place, and commits at the end."""
    async with database.transaction() as tx:
        yield tx
