"""Callers are known without asking Postgres each time, and forgotten when their token goes."""

from datetime import timedelta

import pytest

from holdfast.errors import Unauthenticated
from holdfast.operations.tokens import (
    WantedToken,
    create_token,
    list_tokens,
    revoke_token,
    rotate_token,
)
from holdfast.services import callers as module
from holdfast.services.callers import Callers
from holdfast.store.database import Database


@pytest.fixture
async def callers(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callers:
    """Whoever shows a token of this database; strangers are looked up without a pause."""
    monkeypatch.setattr(module, "LOOK_SECONDS_MIN", 0.0)
    return Callers(database)


def bearer(text: str) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + text.encode()}


async def make(database: Database, name: str = "ci") -> str:
    return (await create_token(database, WantedToken(name, ("read",)), actor="root")).text


async def test_a_new_token_is_good_at_once_and_then_known_without_a_reading(
    callers: Callers, database: Database
) -> None:
    shown = bearer(await make(database))
    caller = await callers.identify(shown)
    assert caller.name == "ci"
    await database.close()  # it is not asked again
    assert await callers.identify(shown) is caller
    await database.open()


async def test_a_revoked_one_is_a_stranger_from_the_next_reading_on(
    callers: Callers, database: Database
) -> None:
    gone, stays = bearer(await make(database)), bearer(await make(database, "other"))
    caller, other = await callers.identify(gone), await callers.identify(stays)
    await revoke_token(database, "ci", actor="root")
    await callers.read()
    with pytest.raises(Unauthenticated, match="unknown, revoked or over its time"):
        await callers.identify(gone)
    assert caller.is_over
    assert not other.is_over
    assert await callers.identify(stays) is other


async def test_after_a_rotation_both_secrets_are_good_for_a_while(
    callers: Callers, database: Database
) -> None:
    old = bearer(await make(database))
    await callers.identify(old)
    made = await rotate_token(database, "ci", grace=timedelta(minutes=1), actor="root")
    await callers.read()
    assert (await callers.identify(bearer(made.text))).name == "ci"
    assert (await callers.identify(old)).ends_at < float("inf")
    made = await rotate_token(database, "ci", grace=timedelta(0), actor="root")
    await callers.read()
    assert (await callers.identify(bearer(made.text))).name == "ci"
    with pytest.raises(Unauthenticated):
        await callers.identify(old)


async def test_use_is_written_down_in_a_batch(callers: Callers, database: Database) -> None:
    first, _ = await make(database), await make(database, "idle")
    await callers.identify(bearer(first))
    assert await callers.note_used() == 0
    used = {row.name: row.last_used_at for row in await list_tokens(database, with_revoked=False)}
    assert used["ci"] is not None
    assert used["idle"] is None
    await callers.note_used()
    again = {row.name: row.last_used_at for row in await list_tokens(database, with_revoked=False)}
    assert again == used


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"", "this server asks for a token; send `Authorization: Bearer"),
        (b"Basic dTpw", "is not a bearer token of Holdfast"),
        (b"Bearer secret", "is not a bearer token of Holdfast"),
        (b"Bearer \xff", "is not a bearer token of Holdfast"),
    ],
)
async def test_what_is_no_token_is_refused_and_not_repeated(
    callers: Callers, header: bytes, problem: str
) -> None:
    with pytest.raises(Unauthenticated, match=problem) as refused:
        await callers.identify({b"authorization": header})
    assert "secret" not in str(refused.value)


async def test_strangers_that_come_again_cost_no_reading(
    callers: Callers, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSED_MAX", 2)
    strangers = [bearer(f"hf_{'0' * 12}_{digit * 64}") for digit in "123"]
    for shown in strangers:
        with pytest.raises(Unauthenticated):
            await callers.identify(shown)
    await database.close()
    with pytest.raises(Unauthenticated):
        await callers.identify(strangers[2])
    await database.open()
