"""LISTEN and NOTIFY: between servers, from users' own transactions, and over lost connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.services.waking import notify
from holdfast.services.waking.notify import CHANNEL, NotifyTransport, listening
from holdfast.store.database import Database
from tests.clock import Clock
from tests.waiting import eventually

# Idle: while the statement still runs it is not heard by anybody yet.
LISTENERS = """
    select pid from pg_stat_activity
     where datname = current_database() and query ilike 'listen %' and state = 'idle'
"""


@asynccontextmanager
async def heard(database: Database, clock: Clock) -> AsyncIterator[list[str]]:
    """Listen, and keep what is heard."""
    queues: list[str] = []
    async with listening(database, queues.append):
        await eventually(lambda: clock.fetch(LISTENERS))
        yield queues


async def test_what_is_published_is_heard_by_everybody(database: Database, clock: Clock) -> None:
    async with heard(database, clock) as one, heard(database, clock) as other:
        await eventually(lambda: _count(clock, 2))
        await NotifyTransport(database).publish("team/gpu", [TaskId(1, 0), TaskId(1, 1)])
        await eventually(lambda: one and other)
    assert one == other == ["team/gpu"]


async def _count(clock: Clock, wanted: int) -> bool:
    return len(await clock.fetch(LISTENERS)) == wanted


async def test_a_transaction_of_the_user_is_heard(database: Database, clock: Clock) -> None:
    async with heard(database, clock) as queues:
        await clock.fetch("select pg_notify($1, 'q')", CHANNEL)
        await eventually(lambda: queues)
    assert queues == ["q"]


async def test_other_channels_are_not_heard(database: Database, clock: Clock) -> None:
    async with heard(database, clock) as queues:
        await clock.fetch("select pg_notify('somebody_else', 'x')")
        await clock.fetch("select pg_notify($1, 'q')", CHANNEL)
        await eventually(lambda: queues)
    assert queues == ["q"]


async def test_a_lost_connection_is_opened_again(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "AGAIN_SECONDS", 0.01)
    async with heard(database, clock) as queues:
        [row] = await clock.fetch(LISTENERS)
        await clock.fetch("select pg_terminate_backend($1)", row[0])
        await eventually(lambda: _listens_anew(clock, row[0]))
        await clock.fetch("select pg_notify($1, 'q')", CHANNEL)
        await eventually(lambda: queues)
    assert queues == ["q"]


async def _listens_anew(clock: Clock, lost: int) -> bool:
    return [row[0] for row in await clock.fetch(LISTENERS)] not in ([], [lost])


async def test_a_database_that_is_away_is_waited_for(
    database_url: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(notify, "AGAIN_SECONDS", 0.01)
    parts = urlsplit(database_url)
    asked = dict(parse_qsl(parts.query))
    way, sockets = tmp_path / "way", asked["host"]
    way.symlink_to(sockets)
    url = parts._replace(query=urlencode(asked | {"host": str(way)})).geturl()
    queues: list[str] = []
    async with Database(url) as database:
        way.unlink()
        async with listening(database, queues.append):
            await eventually(lambda: len(caplog.records) >= 2)
            way.symlink_to(sockets)
            await eventually(lambda: clock.fetch(LISTENERS))
            await NotifyTransport(database).publish("q", [])
            await eventually(lambda: queues)
    assert " is away: " in caplog.records[0].getMessage()


async def test_nobody_listens_after_the_block(database: Database, clock: Clock) -> None:
    async with heard(database, clock):
        pass
    await eventually(lambda: _count(clock, 0))
