"""A real standby is promoted under load: what was acknowledged, and what is there then."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from tests.audits import assert_audit_is_silent
from tests.conftest import run_sql
from tests.simulation.load import Fleet, check_acknowledged
from tests.standby import catch_up, copy, kill_whole, promote, url_of_both, wait_for_it
from tests.waiting import eventually

log = logging.getLogger("tests.failover")
QUICK = {"fsync": "off", "full_page_writes": "off"}
NAME = "ledger"
SOME = 150


class UnderLoad(NamedTuple):
    """A primary, its standby, and what is at work on whichever leads."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres
    fleet: Fleet

    async def work(self) -> None:
        """Wait until some more has been acknowledged."""
        wanted = len(self.fleet.succeeded) + SOME
        await eventually(lambda: len(self.fleet.succeeded) >= wanted)

    async def fail_over(self) -> None:
        """Kill the primary, make the standby the next one, and wait until it has done something."""
        await asyncio.to_thread(kill_whole, self.primary)
        await promote(self.standby)
        await self.work()


@asynccontextmanager
async def under_load(folder: Path, *, keeps_all: bool) -> AsyncIterator[UnderLoad]:
    """Work on a ledger with a standby for the time of a block, then take all to its end."""
    seed = random.SystemRandom().randrange(10**9)
    with EmbeddedPostgres(folder / "a", settings=QUICK) as primary:
        primary.create_database(NAME)
        await migrate(primary.url(NAME))
        with copy(primary, folder / "b", QUICK) as standby:
            url = url_of_both(primary, standby, NAME)
            async with Database(url, connections_max=20) as database:
                fleet = Fleet(database, seed)
                running = asyncio.create_task(fleet.run())
                try:
                    yield UnderLoad(primary, standby, fleet)
                finally:
                    fleet.is_closing = True
                    await running
                await fleet.finish()
                if keeps_all:
                    await check_acknowledged(fleet)
                await assert_audit_is_silent(database)


async def test_nothing_acknowledged_is_lost_when_a_synchronous_standby_takes_over(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path, keeps_all=True) as system:
        await wait_for_it(system.primary)
        await system.work()
        await system.fail_over()
    log.info("%d successes acknowledged, all are there", len(system.fleet.succeeded))


@pytest.mark.nightly
async def test_without_synchronous_replication_the_end_is_gone_and_the_ledger_is_sound(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path, keeps_all=False) as system:
        await system.work()
        kept = set(system.fleet.succeeded)
        await catch_up(system.primary)
        # From here on the standby hears nothing of its primary.
        cut = ["alter system set primary_conninfo = ''", "select pg_reload_conf()"]
        await run_sql(system.standby.url(), *cut)
        await system.work()
        at_last = set(system.fleet.succeeded)
        await system.fail_over()
        lost = await find_lost(system.fleet, at_last)
        log.info("%d successes acknowledged, %d of them lost", len(at_last), len(lost))
        assert lost
        assert not lost & kept


async def find_lost(fleet: Fleet, acknowledged: set[TaskId]) -> set[TaskId]:
    """Find the successes that were acknowledged and are not there."""
    async with fleet.ledger.database.snapshot() as tx:
        rows = await tx.connection.fetch(
            "select job_id, task_index, result::text from holdfast.tasks"
        )
    stored = {TaskId(row[0], row[1]): row[2] for row in rows}
    return {each for each in acknowledged if stored.get(each) != fleet.succeeded[each]}
