"""Workers that can be killed, a watchdog for the test's own process, and a server to work for."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.worker.slots import Slot, take_slot
from holdfast.worker.watchdog_handle import WatchdogHandle
from tests.worker.living import Workers
from tests.worker.placed_workplace import PlacedWorkplace, open_placed
from tests.worker.workplace import Workplace, open_workplace


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
def watchdog(slot: Slot) -> Iterator[WatchdogHandle]:
    """A watchdog over the processes that the test starts."""
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    yield watchdog
    watchdog.stop()


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
