"""kill -9 of the server between the end of a job and the release of those that wait for it."""

import asyncio
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import asyncpg

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.operations.ending.complete import Completion, complete
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.e2e.system import PROGRAM, ROOT
from tests.killing import kill_and_see_gone
from tests.races.test_releases import a_job, run, submit_many
from tests.waiting import eventually, insist

PARENTS = 150
KILLS = 2
FOR_ALL = 5


@contextmanager
def a_server(url: str) -> Iterator[None]:
    """Run a server process for the time of a block, and kill it without a word."""
    process = subprocess.Popen([PROGRAM, "server", "--database-url", url, "--port=0"], cwd=ROOT)
    try:
        yield
    finally:
        kill_and_see_gone(process.pid)
        process.wait()


class Family:
    """Parents that run, those that wait for one of them each, and some that wait for all."""

    def __init__(self, ledger: Ledger, connection: Any) -> None:
        self._ledger = ledger
        self._connection = connection
        self.ended = 0
        self.fences: list[Fence] = []

    async def submit(self) -> None:
        """Submit everything, and let the parents run."""
        parents = await submit_many(self._ledger, [a_job()] * PARENTS)
        self.fences = await run(self._ledger, PARENTS)
        waiting = [a_job(parent) for parent in parents] + [a_job(*parents)] * FOR_ALL
        await submit_many(self._ledger, waiting)

    async def end(self, *fences: Fence) -> None:
        """End parents one by one."""
        for fence in fences:
            item = Completion(fence, "succeeded")
            await insist(partial(complete, self._ledger, [item]))
            self.ended += 1

    async def released(self) -> int:
        """Count those who need not wait any more."""
        query = "select count(*) from holdfast.jobs where released_at is not null and unmet = 0"
        found: int = await self._connection.fetchval(query)
        return found

    async def exceeds(self, count: int) -> bool:
        """Tell whether more than so many have been released."""
        return await self.released() > count


async def test_every_dependent_is_released_whenever_the_server_dies(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    async with Database(database_url) as database:
        family = Family(Ledger(database), connection)
        await family.submit()
        share = PARENTS // (KILLS + 1)
        for turn in range(KILLS):
            first, *others = family.fences[turn * share : (turn + 1) * share]
            released = await family.released()
            fate = turn * share + random.randrange(5, share)
            with a_server(database_url):
                await family.end(first)
                await eventually(partial(family.exceeds, released))  # it does its work
                ending = asyncio.create_task(family.end(*others))
                await eventually(lambda fate=fate: family.ended >= fate)  # type: ignore[misc]
            await ending
        await family.end(*family.fences[KILLS * share :])
        assert await family.released() <= KILLS * share
        # Not that it ever should: nobody is told of the ends that came last.
        await connection.execute("delete from holdfast.outbox where kind = 'release'")
        with a_server(database_url):
            await eventually(partial(family.exceeds, PARENTS + FOR_ALL - 1))
        await assert_audit_is_silent(database)
    await connection.close()
