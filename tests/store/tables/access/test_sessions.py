"""The table of sessions through its functions."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Transaction
from holdfast.store.tables.access.sessions import (
    add_session,
    count_sessions,
    drop_oldest_sessions,
    drop_past_sessions,
    drop_session,
    read_living_sessions,
)
from tests.world import World

CSRF = b"c" * 32
HOUR = timedelta(hours=1)


async def add(tx: Transaction, mark: str = "a", **fields: Any) -> None:
    given: dict[str, Any] = {"subject": "oidc:ann", "roles": ["read"], "lasts": HOUR} | fields
    await add_session(tx, secret_hash=mark.encode() * 32, csrf_hash=CSRF, **given)


async def test_a_session_is_read_until_its_time_is_over_or_it_is_dropped(
    ledger: Ledger, world: World
) -> None:
    async with ledger.database.transaction() as tx:
        await add(tx, "a", owners=["search"])
        await add(tx, "b", lasts=2 * HOUR)
        await add(tx, "c", lasts=2 * HOUR)
        assert await drop_session(tx, b"c" * 32)
        assert not await drop_session(tx, b"c" * 32)
    first, second = await read_living_sessions(ledger.database)
    assert (first.subject, first.roles, first.owners) == ("oidc:ann", ["read"], ["search"])
    assert (first.token_id, first.token_hash, first.csrf_hash) == (None, None, CSRF)
    await world.clock.advance(HOUR.total_seconds())
    assert await read_living_sessions(ledger.database) == [second]
    async with ledger.database.transaction() as tx:
        assert await drop_past_sessions(tx) == 1
        assert await count_sessions(tx) == 1


async def test_the_oldest_of_one_caller_go(tx: Transaction) -> None:
    for mark in "abc":
        await add(tx, mark)
    await add(tx, "d", subject="oidc:bob")
    assert await drop_oldest_sessions(tx, token_id=None, subject="oidc:ann", kept=1) == 2
    assert await drop_oldest_sessions(tx, token_id="t1", subject=None, kept=0) == 0
    assert await count_sessions(tx) == 2


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"subject": None}, "a_session_is_of_a_token_or_of_a_subject"),
        ({"token_hash": b"t" * 32}, "a_session_is_of_a_token_or_of_a_subject"),
        ({"roles": ["root"]}, "a_session_has_known_roles"),
        ({"lasts": timedelta(0)}, "a_session_ends_after_its_beginning"),
    ],
)
async def test_what_no_session_can_be_is_refused(
    ledger: Ledger, fields: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=constraint):
        async with ledger.database.transaction() as tx:
            await add(tx, **{"roles": [], **fields})
