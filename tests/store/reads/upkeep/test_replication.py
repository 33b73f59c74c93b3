"""How far a Postgres and its standby are, as both tell."""

from pathlib import Path

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.database import Database
from holdfast.store.reads.upkeep.replication import read_position
from tests.conftest import run_sql
from tests.standby import catch_up, copy, promote

QUICK = {"fsync": "off", "full_page_writes": "off"}


async def test_a_standby_follows_its_primary_until_it_is_promoted(tmp_path: Path) -> None:
    with (
        EmbeddedPostgres(tmp_path / "a", settings=QUICK) as primary,
        copy(primary, tmp_path / "b", QUICK) as standby,
    ):
        await run_sql(standby.url(), "select pg_wal_replay_pause()")
        await run_sql(primary.url(), "create table written ()")
        async with Database(primary.url()) as one, Database(standby.url()) as other:
            ahead, behind = await read_position(one), await read_position(other)
            assert behind.follows(ahead)
            assert ahead.follows(ahead)
            assert not ahead.follows(behind)
            assert behind.position < ahead.position
            await run_sql(standby.url(), "select pg_wal_replay_resume()")
            await catch_up(primary)
            assert (await read_position(other)).position >= ahead.position
            await promote(standby)
            assert not (await read_position(other)).follows(ahead)
