"""A real standby answers lists, as long as it has all that its primary has."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.services import runtime as runtime_module
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from tests.api.face import Face
from tests.audits import assert_audit_is_silent
from tests.conftest import run_sql
from tests.standby import catch_up, copy, frozen, kill_whole
from tests.waiting import eventually

QUICK = {"fsync": "off", "full_page_writes": "off", "jit": "off"}
NAME = "ledger"
FROZEN_SECONDS_MAX = 20.0  # far below the minute for which a statement is waited for
SPEC = {"entrypoint": {"function": "app:work"}, "queue": "q"}


class Pair(NamedTuple):
    """A primary and its standby."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A migrated ledger and its copy."""
    with EmbeddedPostgres(tmp_path / "a", settings=QUICK) as primary:
        primary.create_database(NAME)
        await migrate(primary.url(NAME))
        with copy(primary, tmp_path / "b", QUICK) as standby:
            await catch_up(primary)
            yield Pair(primary, standby)


@pytest.fixture
async def runtime(pair: Pair) -> AsyncIterator[Runtime]:
    """A server at work that reads at the standby."""
    options = Options(pair.primary.url(NAME), read_database_url=pair.standby.url(NAME))
    async with open_runtime(options) as runtime:
        await eventually(lambda: runtime.replica.state == "near")
        yield runtime


async def answered_by(face: Face, who: str) -> int:
    """Count the reads that a replica may answer, by who did."""
    metrics = (await face.runtime.scrape()).decode()
    name = f'holdfast_replica_reads_total{{answered_by="{who}"}} '
    found = [line for line in metrics.splitlines() if line.startswith(name)]
    return int(float(found[0].split()[-1])) if found else 0


async def submit(face: Face) -> str:
    """Submit a job; returns its id."""
    said = await face.post("/api/jobs", SPEC)
    return str(said.json["job_id"])


async def list_ids(face: Face) -> list[str]:
    """List all jobs."""
    said = await face.get("/api/jobs")
    assert said.status == 200, said
    return [job["job_id"] for job in said.json["jobs"]]


async def test_who_has_submitted_a_job_finds_it_in_lists_at_the_replica(
    pair: Pair, runtime: Runtime
) -> None:
    face = Face(runtime)
    for count in range(1, 6):
        job_id = await submit(face)
        assert job_id in await list_ids(face)
        assert (await face.get(f"/api/jobs/{job_id}/events")).json["events"]
        assert (await face.get(f"/api/tasks/{job_id}.0/logs")).status == 200
        assert await answered_by(face, "replica") == 3 * count
    assert (await face.get("/readyz")).json["read_replica"] == "near"
    await catch_up(pair.primary)
    async with Database(pair.standby.url(NAME), connections_max=1) as standby:
        await assert_audit_is_silent(standby)


async def test_what_a_replica_has_not_applied_is_read_at_the_primary(
    pair: Pair, runtime: Runtime
) -> None:
    face = Face(runtime)
    await run_sql(pair.standby.url(NAME), "select pg_wal_replay_pause()")
    job_id = await submit(face)
    assert job_id in await list_ids(face)
    assert await answered_by(face, "primary") == 1
    await eventually(lambda: (runtime.replica.state or "").endswith("s behind"))
    assert job_id in await list_ids(face)
    lag = "holdfast_read_replica_lag_seconds"
    lines = (await runtime.scrape()).decode().splitlines()
    assert [float(line.split()[1]) > 2.0 for line in lines if line.startswith(lag)] == [True]
    await run_sql(pair.standby.url(NAME), "select pg_wal_replay_resume()")
    await eventually(lambda: runtime.replica.state == "near")
    before = await answered_by(face, "replica")
    assert job_id in await list_ids(face)
    assert await answered_by(face, "replica") == before + 1


async def test_a_replica_that_is_gone_is_missed_by_nobody(
    pair: Pair, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    face = Face(runtime)
    job_id = await submit(face)
    kill_whole(pair.standby)
    for _ in range(3):
        assert job_id in await list_ids(face)
    assert "cannot be used now" in str(runtime.replica.state)
    assert sum("read replica is not read" in line for line in caplog.messages) == 1
    pair.standby.start()
    await eventually(lambda: runtime.replica.state == "near")
    assert job_id in await list_ids(face)


async def test_a_replica_that_answers_nothing_keeps_nobody_waiting(
    pair: Pair, runtime: Runtime
) -> None:
    face = Face(runtime)
    job_id = await submit(face)
    assert job_id in await list_ids(face)
    with frozen(pair.standby):
        async with asyncio.timeout(FROZEN_SECONDS_MAX):
            for _ in range(3):
                assert job_id in await list_ids(face)
        assert await answered_by(face, "primary") == 3
        assert "has not answered" in str(runtime.replica.state)
    await eventually(lambda: runtime.replica.state == "near")


async def test_the_output_of_a_job_is_read_where_its_writers_can_be_seen(runtime: Runtime) -> None:
    face = Face(runtime)
    job_id = await submit(face)
    assert (await face.get(f"/api/jobs/{job_id}/logs")).status == 200
    assert (await answered_by(face, "replica"), await answered_by(face, "primary")) == (0, 0)


async def test_while_the_primary_is_gone_the_replica_is_read_as_it_is(
    pair: Pair, runtime: Runtime
) -> None:
    face = Face(runtime)
    job_id = await submit(face)
    await catch_up(pair.primary)
    kill_whole(pair.primary)
    assert job_id in await list_ids(face)
    assert (await face.get(f"/api/jobs/{job_id}")).status == 503
    pair.primary.start()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A Postgres that has nothing to do with the first."""
    with EmbeddedPostgres(tmp_path / "stranger", settings=QUICK) as stranger:
        stranger.create_database(NAME)
        yield stranger


async def test_a_postgres_that_is_no_standby_of_the_primary_is_never_read(
    database_url: str, stranger: EmbeddedPostgres
) -> None:
    options = Options(database_url, read_database_url=stranger.url(NAME))
    async with open_runtime(options) as runtime:
        await eventually(lambda: "no standby of the primary" in str(runtime.replica.state))
        face = Face(runtime)
        assert await submit(face) in await list_ids(face)


async def test_a_stop_does_not_wait_for_a_replica_that_does_not_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "STOP_SECONDS_MAX", 0.5)
    options = Options(pair.primary.url(NAME), read_database_url=pair.standby.url(NAME))
    async with AsyncExitStack() as stopping:
        runtime = await stopping.enter_async_context(open_runtime(options))
        await eventually(lambda: runtime.replica.state == "near")
        with frozen(pair.standby):
            # A look at it that is under way, as a stop finds most of the time.
            looking = asyncio.create_task(runtime.replica.look())
            async with asyncio.timeout(FROZEN_SECONDS_MAX):
                await stopping.aclose()
                await looking
