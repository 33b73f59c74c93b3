"""Log in and out; what a browser is told is nowhere in the database."""

import pytest

from holdfast.errors import Overloaded
from holdfast.model.access.roles import Role
from holdfast.model.access.tokens import Presented, hash_secret, parse_token
from holdfast.operations import sessions as module
from holdfast.operations.sessions import SubjectLogin, end_session, open_session
from holdfast.operations.tokens import WantedToken, create_token
from holdfast.store.database import Database
from holdfast.store.tables.access.sessions import read_living_sessions

ANN = SubjectLogin("oidc:ann", (Role.READ, Role.CONTENT), ("search",))


async def make_token(database: Database) -> Presented:
    made = await create_token(database, WantedToken("ci", ("read",)), actor="root")
    shown = parse_token(made.text)
    assert shown is not None
    return shown


async def test_a_session_is_of_a_token_or_of_somebody_whom_a_provider_knows(
    database: Database,
) -> None:
    shown = await make_token(database)
    of_token = await open_session(database, shown)
    of_ann = await open_session(database, ANN)
    rows = {row.secret_hash: row for row in await read_living_sessions(database)}
    assert not {of_token.secret, of_token.csrf, of_ann.secret} & set(repr(rows).split("'"))
    row = rows[hash_secret(of_token.secret)]
    assert (row.token_id, row.token_hash, row.subject, row.roles) == (*shown, None, [])
    assert row.csrf_hash == hash_secret(of_token.csrf)
    row = rows[hash_secret(of_ann.secret)]
    assert (row.token_id, row.subject, row.roles) == (None, "oidc:ann", ["data", "read"])
    assert (row.owners, row.expires_at) == (["search"], of_ann.ends_at)
    assert await end_session(database, hash_secret(of_ann.secret))
    assert not await end_session(database, hash_secret(of_ann.secret))
    assert len(await read_living_sessions(database)) == 1


async def test_sessions_are_bounded_of_each_and_of_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SESSIONS_PER_CALLER_MAX", 2)
    monkeypatch.setattr(module, "SESSIONS_MAX", 3)
    bob = ANN._replace(subject="oidc:bob")
    opened = [await open_session(database, who) for who in (bob, ANN, ANN, ANN)]
    kept = {row.secret_hash for row in await read_living_sessions(database)}
    assert kept == {hash_secret(opened[index].secret) for index in (0, 2, 3)}
    with pytest.raises(Overloaded, match="3 sessions are open"):
        await open_session(database, ANN._replace(subject="oidc:eve"))
