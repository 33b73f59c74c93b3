"""Who holds the vacuum horizon, as a real Postgres tells."""

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.rules.reading.horizon import Holder
from holdfast.store.database import Database
from holdfast.store.reads.upkeep.horizon import list_holders
from tests.conftest import run_sql
from tests.prepared import QUICK
from tests.standby import copy
from tests.waiting import eventually

PLAIN_ROLE = "horizon_watcher"
# A standby that tells its primary by a slot which rows its readers need.
FOLLOWING = QUICK | {
    "primary_slot_name": "forgotten",
    "hot_standby_feedback": "on",
    "wal_receiver_status_interval": "1s",
    "max_prepared_transactions": "2",
}


async def find(database: Database, kind: str, name: str) -> Holder | None:
    """Find one holder among all."""
    found = {(each.kind, each.name): each for each in await list_holders(database)}
    return found.get((kind, name))


async def test_a_session_that_has_forgotten_its_transaction_is_named(direct_url: str) -> None:
    reader = await asyncpg.connect(direct_url, server_settings={"application_name": "report"})
    async with Database(direct_url) as database:
        await reader.execute("begin isolation level repeatable read; select 1 from pg_class")
        for _ in range(3):
            await reader_of_ids(direct_url)
        pid = await reader.fetchval("select pg_backend_pid()")
        holder = await find(database, "session", str(pid))
        assert holder is not None
        assert (holder.application, holder.role, holder.state) == (
            "report",
            "postgres",
            "idle in transaction",
        )
        assert (holder.query or "").startswith("select pg_backend_pid")
        assert holder.query_started_at is not None
        assert holder.xids >= 3
        assert holder.seconds is not None
        await reader.close()
        assert await find(database, "session", str(pid)) is None


async def reader_of_ids(url: str) -> None:
    """Use up a transaction's number."""
    await run_sql(url, "select pg_current_xact_id()")


async def test_without_the_right_a_session_is_named_and_its_query_is_not(
    direct_url: str, database: Database
) -> None:
    await run_sql(direct_url, f"create role {PLAIN_ROLE} login")
    reader = await asyncpg.connect(direct_url)
    try:
        await reader.execute("begin isolation level repeatable read; select 1 from pg_class")
        pid = str(await reader.fetchval("select pg_backend_pid()"))
        own_url = direct_url.replace("postgres@", f"{PLAIN_ROLE}@")
        assert own_url != direct_url
        async with Database(own_url) as plain:
            holder = await find(plain, "session", pid)
        assert holder is not None
        assert holder.is_hidden
        assert (holder.query, holder.state, holder.seconds) == (None, None, None)
        everything = await find(database, "session", pid)
        assert everything is not None
        assert not everything.is_hidden
    finally:
        await reader.close()
        await run_sql(direct_url, f"drop role {PLAIN_ROLE}")


@pytest.fixture(scope="module")
def replicating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A Postgres that allows slots and prepared transactions."""
    settings = QUICK | {"wal_level": "logical", "max_prepared_transactions": "2"}
    folder = tmp_path_factory.mktemp("replicating") / "cluster"
    with EmbeddedPostgres(folder, settings=settings) as postgres:
        yield postgres


async def test_a_replication_slot_and_a_prepared_transaction_are_named(
    replicating: EmbeddedPostgres, tmp_path: Path
) -> None:
    url = replicating.url("postgres")
    await run_sql(url, "select pg_create_physical_replication_slot('forgotten')")
    async with Database(url) as database:
        with copy(replicating, tmp_path / "standby", FOLLOWING):
            await eventually(lambda: find(database, "replication slot", "forgotten"))
        await run_sql(
            url,
            "begin; create table public.held (); prepare transaction 'lost'",
            "select pg_current_xact_id()",
        )

        async def find_inactive() -> Holder | None:
            slot = await find(database, "replication slot", "forgotten")
            return slot if slot is not None and slot.state == "inactive" else None

        slot = await eventually(find_inactive)
        prepared = await find(database, "prepared transaction", "lost")
        assert slot is not None
        assert prepared is not None
        assert slot.seconds is None
        assert slot.xids >= 1
        assert (prepared.role, prepared.state) == ("postgres", "prepared")
        assert prepared.seconds is not None
        await run_sql(
            url, "select pg_drop_replication_slot('forgotten')", "rollback prepared 'lost'"
        )
        assert await list_holders(database) == []


async def test_a_slot_for_logical_decoding_keeps_rows_of_the_catalog_alone_and_is_not_named(
    replicating: EmbeddedPostgres,
) -> None:
    url = replicating.url("postgres")
    await run_sql(
        url,
        "select pg_create_logical_replication_slot('decoding', 'pgoutput')",
        "create table public.emptied as select generate_series(1, 1000) as number",
        "delete from public.emptied",
    )
    await reader_of_ids(url)
    await run_sql(url, "vacuum public.emptied")
    async with Database(url) as database:
        assert await find(database, "replication slot", "decoding") is None
    size = "select 1 / (pg_relation_size('public.emptied') = 0)::int"
    await run_sql(url, size, "select pg_drop_replication_slot('decoding')")
