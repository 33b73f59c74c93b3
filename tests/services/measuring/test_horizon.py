"""The horizon watchdog: what it measures, and that it tells of each pin once."""

import asyncio
import logging

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from holdfast.rules.reading.horizon import HELD_SECONDS, HorizonLimits
from holdfast.services.measuring.horizon import HorizonWatchdog
from holdfast.services.runtime import Options, Runtime
from holdfast.store.database import Database
from tests.conftest import run_sql


def measured(registry: CollectorRegistry, name: str, kind: str) -> float:
    """Read one gauge."""
    value = registry.get_sample_value(f"holdfast_vacuum_horizon_age_{name}", {"kind": kind})
    assert value is not None
    return value


async def test_a_pin_is_logged_once_and_its_end_once(
    database_url: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    watchdog = HorizonWatchdog(database, registry, HorizonLimits(xids_max=2))
    caplog.set_level(logging.WARNING, "holdfast.horizon")
    await watchdog.look()
    reader = await asyncpg.connect(database_url, server_settings={"application_name": "report"})
    await reader.execute("begin isolation level repeatable read; select 1 from pg_class")
    pid = await reader.fetchval("select pg_backend_pid()")
    await watchdog.look()
    assert not [text for text in caplog.messages if f"session {pid} " in text]
    for _ in range(3):
        await run_sql(database_url, "select pg_current_xact_id()")
    await watchdog.look()
    await watchdog.look()
    begun = [text for text in caplog.messages if f"session {pid} " in text]
    assert len(begun) == 1
    assert "(report)" in begun[0]
    assert f"pg_terminate_backend({pid})" in begun[0]
    assert measured(registry, "xids", "session") >= 3
    assert measured(registry, "seconds", "session") > 0
    await reader.close()
    await watchdog.look()
    await watchdog.look()
    over = [text for text in caplog.messages if text.startswith("vacuum is no longer")]
    assert len([text for text in over if f"session {pid}," in text]) == 1


async def test_claims_are_told_when_dead_rows_begin_to_pile_up_and_when_that_is_over(
    quiet: Runtime, database_url: str
) -> None:
    told: list[bool] = []
    watchdog = HorizonWatchdog(quiet.reads, CollectorRegistry(), on_held=told.append)
    reader = await asyncpg.connect(database_url)
    await reader.execute("begin isolation level repeatable read; select 1 from pg_class")
    async with asyncio.timeout(HELD_SECONDS + 30):
        while not any(told):
            await watchdog.look()
    await reader.close()
    await watchdog.look()
    assert not told[-1]


async def test_a_server_watches_and_shows_it(quiet: Runtime, database_url: str) -> None:
    (chore,) = [
        each
        for each in quiet.chores(Options(database_url))
        if each.name == "watch the vacuum horizon"
    ]
    assert await chore.run() == 0
    assert b'holdfast_vacuum_horizon_age_xids{kind="replication slot"}' in await quiet.scrape()
