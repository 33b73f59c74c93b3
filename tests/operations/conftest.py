"""The world of the operations: its leases are watched; a gap is what a test makes of it."""

import pytest

from holdfast.ledger.ledger import Ledger
from tests.clock import Clock
from tests.world import World


@pytest.fixture
async def world(ledger: Ledger, clock: Clock) -> World:
    """The ledger and its clock, with no outage behind them."""
    world = World(ledger, clock)
    await world.watch()
    return world
