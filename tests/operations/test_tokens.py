"""Tokens are made with a role and a name, told once, rotated and revoked; all of it is recorded."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import Invalid, NotFound
from holdfast.model.access.tokens import hash_secret, parse_token
from holdfast.operations import tokens
from holdfast.operations.tokens import (
    WantedToken,
    create_token,
    list_tokens,
    revoke_token,
    rotate_token,
)
from holdfast.store.database import Database
from holdfast.store.reads.actions import ActionFilter, list_actions
from holdfast.store.tables.access.tokens import read_living_tokens

CI = WantedToken("ci", ("submit",), ("ann",), ("q",))


async def test_only_the_hash_of_a_secret_is_kept(database: Database) -> None:
    made = await create_token(database, CI, actor="root")
    shown = parse_token(made.text)
    assert shown is not None
    [row] = await read_living_tokens(database)
    assert (row.token_id, row.secret_hash) == shown
    [listed] = await list_tokens(database, with_revoked=False)
    assert (listed.name, listed.roles, listed.owners) == ("ci", ["submit"], ["ann"])
    secret = made.text.rpartition("_")[2]
    assert hash_secret(secret) == row.secret_hash
    async with database.transaction() as tx:
        recorded = await list_actions(tx, ActionFilter(), count_max=9)
    assert secret not in repr([listed, recorded])


async def test_what_is_done_to_tokens_is_recorded(database: Database) -> None:
    first = await create_token(database, CI, actor="root")
    again = await rotate_token(database, "ci", grace=timedelta(0), actor="ann")
    assert again.token_id == first.token_id
    assert again.text != first.text
    await revoke_token(database, again.token_id, actor="bob")
    async with database.transaction() as tx:
        done = [
            (row.actor, row.action) for row in await list_actions(tx, ActionFilter(), count_max=9)
        ]
    assert sorted(done) == [
        ("ann", "rotate_token"),
        ("bob", "revoke_token"),
        ("root", "create_token"),
    ]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (CI._replace(name=""), "name: '' is none"),
        (CI._replace(name="a b"), "name: 'a b' is none; use letters"),
        (CI._replace(name="0123456789ab"), "looks like the id"),
        (CI._replace(name="server"), "name: 'server' is how Holdfast names itself .*; use another"),
        (CI._replace(name="api"), "name: 'api' is how Holdfast names"),
        (CI._replace(name="anonymous"), "name: 'anonymous' is how Holdfast names"),
        (CI._replace(roles=()), "roles: is empty; give one of read, data"),
        (CI._replace(roles=("root",)), "roles: 'root' is unknown"),
        (CI._replace(owners=("",)), "owners: has an empty name"),
        (CI._replace(owners=("*", "a")), "owners: has '\\*', which is all of them, and others"),
        (CI._replace(owners=("a",) * 101), "owners: 101 names is over"),
        (CI._replace(queues=("a b",)), "queue: 'a b' is not a queue name"),
        (CI._replace(roles=("worker",)), "owners: goes without the role worker"),
        (CI._replace(roles=("admin",)), "owners: goes without the role admin"),
        (CI._replace(expires_at=datetime(2020, 1, 1, tzinfo=UTC)), "expires_at: .* is over"),
    ],
)
async def test_a_token_that_cannot_be_right_is_not_made(
    database: Database, wanted: WantedToken, problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        await create_token(database, wanted, actor="root")
    assert await list_tokens(database, with_revoked=True) == []


async def test_names_and_their_number_are_limited(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_token(database, CI, actor="root")
    with pytest.raises(Invalid, match="name: 'ci' is the name of a token; rotate or revoke it"):
        await create_token(database, CI, actor="root")
    monkeypatch.setattr(tokens, "TOKENS_MAX", 1)
    with pytest.raises(Invalid, match="there are 1, which is the limit; revoke"):
        await create_token(database, CI._replace(name="more"), actor="root")


async def test_what_is_not_there_is_neither_rotated_nor_revoked(database: Database) -> None:
    with pytest.raises(NotFound, match="no living token ci"):
        await rotate_token(database, "ci", grace=timedelta(0), actor="root")
    with pytest.raises(NotFound, match="no living token ci"):
        await revoke_token(database, "ci", actor="root")
    with pytest.raises(Invalid, match="grace_seconds: is -1"):
        await rotate_token(database, "ci", grace=timedelta(seconds=-1), actor="root")
