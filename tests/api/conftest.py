"""A whole server without its socket, and a quiet one that only does what it is asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.store.database import Database
from tests.api.face import Face
from tests.api.guarded import Guarded


@pytest.fixture
async def runtime(database_url: str, tmp_path: Path) -> AsyncIterator[Runtime]:
    """A server at work: chores, wake-ups and all."""
    options = Options(database_url, object_store=str(tmp_path / "objects"))
    async with open_runtime(options) as runtime:
        yield runtime


@pytest.fixture
async def face(runtime: Runtime) -> Face:
    """The routes of a server at work."""
    return Face(runtime)


@pytest.fixture
async def quiet(ledger: Ledger, database: Database) -> AsyncIterator[Runtime]:
    """A server without chores: nobody looks again, so whoever is woken was rung for."""
    runtime = Runtime(ledger, database, WakeUps(Doorbells()))
    yield runtime
    await runtime.stop()
    await runtime.writers.stop()


@pytest.fixture
async def quiet_face(quiet: Runtime) -> Face:
    """The routes of a server without chores."""
    return Face(quiet)


@pytest.fixture
async def guarded(database_url: str, tmp_path: Path) -> AsyncIterator[Guarded]:
    """A server that asks for tokens."""
    options = Options(database_url, object_store=str(tmp_path / "o"), requires_tokens=True)
    async with open_runtime(options) as runtime:
        yield Guarded(Face(runtime), runtime.ledger.database, {})
