"""Queue work and a gang on a Postgres behind a real PgBouncer that shares its connections."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Invalid
from holdfast.model.work.states import TaskState
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.services.waking import notify
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.gangs import a_gang
from tests.pgbouncer import running_pgbouncer
from tests.waiting import eventually
from tests.world import World

SUCCEEDED = TaskState.SUCCEEDED
ANYWHERE = Address(port=0)


@pytest.fixture
def pooled_url(postgres: EmbeddedPostgres, direct_url: str) -> Iterator[str]:
    """The test's database behind a pooler with two connections for everybody."""
    with running_pgbouncer(postgres.url("postgres"), connections=2) as pooler:
        yield pooler.url(direct_url)


@pytest.fixture
async def database(pooled_url: str) -> AsyncIterator[Database]:
    """What the ledger of these journeys writes through."""
    async with Database(pooled_url) as database:
        assert database.is_pooled
        yield database


async def test_a_job_of_a_queue_fails_once_and_succeeds(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2, 3], max_retries_failure=1, backoff={"base": 2.0})
    first, *others = await world.claim(count=3)
    await world.fail(first)
    for claim in others:
        await world.start(claim)
        await world.renew(claim)
        await world.succeed(claim)
    await world.pass_time(5)
    (again,) = await world.claim()
    await world.succeed(again)
    assert await world.job_state(job_id) == SUCCEEDED
    await assert_audit_is_silent(database)


async def test_a_gang_breaks_and_succeeds(world: World, database: Database) -> None:
    await world.watch()
    gang = await a_gang(world, replicas=3, max_retries_failure=1, backoff={"base": 2.0})
    assert await gang.place() == [0, 1, 2]
    await gang.complete(m2="failed")
    await gang.confirm(0, 1)
    await world.pass_time(5)
    assert await gang.place() == [0, 1, 2]
    await gang.succeed(0, 1, 2)
    assert await world.job_state(gang.job_id) == SUCCEEDED
    await assert_audit_is_silent(database)


async def test_a_server_says_that_it_cannot_listen_and_serves(
    pooled_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serve(Options(pooled_url), ANYWHERE) as server,
        aiohttp.ClientSession() as http,
        http.get(f"{server.url}/readyz") as response,
    ):
        assert response.status == 200
    assert caplog.messages.count(notify.NOT_HEARD) == 1


async def test_a_server_listens_past_the_pooler(
    pooled_url: str, direct_url: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(Options(pooled_url, listen_database_url=direct_url), ANYWHERE):
        listeners = "select pid from pg_stat_activity where query ilike 'listen %'"
        await eventually(lambda: world.clock.fetch(listeners))
    assert notify.NOT_HEARD not in caplog.messages


async def test_a_pooler_is_no_place_to_listen_at(pooled_url: str) -> None:
    with pytest.raises(Invalid, match=r"listen_database_url.*name Postgres itself"):
        async with serve(Options(pooled_url, listen_database_url=pooled_url), ANYWHERE):
            pass
