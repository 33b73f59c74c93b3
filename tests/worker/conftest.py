"""Workers that can be killed, a guard for the test's own process, and a server to work for."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.worker.guard import Guard
from holdfast.worker.slots import Slot, take_slot

from .living import Workers
from .placed_workplace import PlacedWorkplace, open_placed
from .workplace import Workplace, open_workplace


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Worker processes, all gone at the end of the test."""
    workers = Workers(tmp_path)
    yield workers
    workers.clean_up()


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    """A slot of the test's own process."""
    slot = take_slot(tmp_path / "slots")
    yield slot
    slot.close()


@pytest.fixture
def guard(slot: Slot) -> Iterator[Guard]:
    """A guard over the processes that the test starts."""
    guard = Guard()
    guard.start(slot.fd)
    yield guard
    guard.stop()


@pytest.fixture
async def workplace(database_url: str, tmp_path: Path) -> AsyncIterator[Workplace]:
    """A server on the test's database, and workers that end with the test."""
    async with open_workplace(database_url, tmp_path) as workplace:
        yield workplace


@pytest.fixture
async def placed(database_url: str, tmp_path: Path) -> AsyncIterator[PlacedWorkplace]:
    """A server on the test's database that calls its workers, which end with the test."""
    async with open_placed(database_url, tmp_path) as workplace:
        yield workplace
