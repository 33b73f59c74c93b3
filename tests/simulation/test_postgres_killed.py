"""Kill Postgres with SIGKILL under load, again and again: what was acknowledged is there."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from protocol import trace
from tests.audits import assert_audit_is_silent
from tests.simulation.load import Fleet, check_acknowledged


def _kill_unseen(postgres: EmbeddedPostgres) -> None:
    """Kill every process of a Postgres, and do not wait until they are gone: the start has to."""
    first = psutil.Process(postgres.pid)
    for process in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.kill()


async def _survive(folder: Path, kills: int, seed: int) -> None:
    """Live through kills at random moments; a failure names its seed."""
    try:
        await _live_through(folder, kills, seed)
    except BaseException as error:
        error.add_note(f"seed={seed}")
        raise


async def _live_through(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with EmbeddedPostgres(folder) as postgres:
        postgres.create_database("chaos")
        await migrate(postgres.url("chaos"))
        async with Database(postgres.url("chaos"), connections_max=20) as database:
            fleet = Fleet(database, seed)
            running = asyncio.create_task(fleet.run())
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.2, 1.2))
                await asyncio.to_thread(_kill_unseen, postgres)
                await asyncio.to_thread(postgres.start)
            fleet.is_closing = True
            await running
            await fleet.finish()
            await check_acknowledged(fleet)
            await assert_audit_is_silent(database)
            steps, illegal = await trace.check_database(postgres.url("chaos"))
            assert illegal == []
            assert steps.total() > len(fleet.succeeded)


async def test_nothing_acknowledged_is_lost_when_postgres_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**9)
    await _survive(tmp_path / "cluster", kills=2, seed=seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
async def test_nothing_acknowledged_is_lost_in_a_night_of_kills(tmp_path: Path, seed: int) -> None:
    await _survive(tmp_path / "cluster", kills=15, seed=seed)
