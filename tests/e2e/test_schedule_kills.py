"""kill -9 of two servers in turn, and of both, while schedules fire every second."""

import asyncio
import random
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.operations.schedules.change import set_schedule
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.e2e.test_release_kills import a_server
from tests.timetable import a_template
from tests.waiting import eventually

SECOND = timedelta(seconds=1)
# Too late for `strict` alone.
DOWN = timedelta(seconds=9)
STEADY = [f"steady-{number}" for number in range(20)]
PATIENCE = 120.0


class Firings:
    """What the tables say of schedules, while servers come and go."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """Read the tables as they are."""
        rows: list[Any] = await self._connection.fetch(query, *values)
        return rows

    async def last(self) -> datetime:
        """Say up to which instant all schedules have been looked at."""
        [[moment]] = await self.fetch("select min(next_at) from holdfast.schedules")
        assert isinstance(moment, datetime)
        return moment

    async def go_on(self, by: timedelta) -> None:
        """Wait until all schedules have got on by some seconds."""
        wanted = await self.last() + by

        async def have() -> bool:
            return await self.last() >= wanted

        await eventually(have, seconds=PATIENCE)

    async def fall_behind(self, by: timedelta) -> None:
        """Wait until all schedules are late."""
        late = "select holdfast.now() - max(next_at) >= $1 from holdfast.schedules"

        async def are_late() -> bool:
            return bool((await self.fetch(late, by))[0][0])

        await eventually(are_late, seconds=PATIENCE)

    async def fired(self, name: str) -> list[datetime]:
        """List the instants that have a job, and see that it has no other job."""
        firings = await self.fetch(
            "select instant, outcome, job_id from holdfast.schedule_firings "
            "join holdfast.schedules using (schedule_id) where name = $1",
            name,
        )
        assert {firing["outcome"] for firing in firings} == {"fired"}
        jobs = await self.fetch(
            "select job_id from holdfast.jobs where labels ->> 'schedule' = $1", name
        )
        assert sorted(job["job_id"] for job in jobs) == sorted(f["job_id"] for f in firings)
        return [firing["instant"] for firing in firings]

    async def missed(self, name: str) -> list[datetime]:
        """List the instants that count as missed, one by one."""
        misses = await self.fetch(
            "select first_instant, instants from holdfast.schedule_misses "
            "join holdfast.schedules using (schedule_id) where name = $1",
            name,
        )
        return [row[0] + number * SECOND for row in misses for number in range(row[1])]


def without_gaps(instants: list[datetime]) -> bool:
    """Tell whether each second from the first to the last is there, once."""
    first = min(instants)
    return sorted(instants) == [first + n * SECOND for n in range(len(instants))]


@pytest.mark.nightly
async def test_each_instant_fires_once_whichever_server_is_killed(
    ledger: Ledger, database: Database, database_url: str
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    for name in STEADY:
        terms = ScheduleTerms(every=1.0, overlap="allow", catch_up="all")
        await set_schedule(ledger, name, terms, submission=a_template(), actor="ann")
    terms = ScheduleTerms(every=1.0, overlap="allow", late_max=5.0)
    await set_schedule(ledger, "strict", terms, submission=a_template(), actor="ann")
    async with database.connection() as connection:
        firings = Firings(connection)
        servers = [ExitStack(), ExitStack()]
        try:
            for server in servers:
                server.enter_context(a_server(database_url))
            await firings.go_on(3 * SECOND)
            for turn in range(8):
                await asyncio.sleep(chance.random())
                servers[turn % 2].close()
                await firings.go_on(2 * SECOND)
                servers[turn % 2].enter_context(a_server(database_url))
            for server in servers:
                server.close()
            await firings.fall_behind(DOWN)
            servers[0].enter_context(a_server(database_url))
            await firings.go_on(DOWN + 2 * SECOND)
        finally:
            for server in servers:
                server.close()
        for name in STEADY:
            assert await firings.missed(name) == []
            assert without_gaps(await firings.fired(name)), name
        missed = await firings.missed("strict")
        assert len(missed) >= 3
        assert without_gaps(await firings.fired("strict") + missed)
    await assert_audit_is_silent(database)
