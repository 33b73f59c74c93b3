"""The table of tokens through its functions."""

from datetime import timedelta
from typing import Any

from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Transaction
from holdfast.store.tables.access.tokens import (
    add_token,
    count_living_tokens,
    list_tokens,
    note_tokens_used,
    read_living_tokens,
    revoke_token,
    rotate_token,
)
from tests.world import World

OLD, NEW = b"o" * 32, b"n" * 32


async def add(tx: Transaction, token_id: str = "t1", name: str = "ci", **fields: Any) -> bool:
    fields = {"roles": ["read"], "owners": [], "queues": [], "expires_at": None} | fields
    return await add_token(
        tx, token_id=token_id, name=name, secret_hash=OLD, created_by="root", **fields
    )


async def test_a_name_is_free_again_once_its_token_is_revoked(tx: Transaction) -> None:
    assert await add(tx)
    assert not await add(tx, "t2")
    assert await revoke_token(tx, "ci", revoked_by="root") == ("t1", "ci")
    assert await revoke_token(tx, "t1", revoked_by="root") is None
    assert await rotate_token(tx, "t1", secret_hash=NEW, grace=timedelta(0)) is None
    assert await add(tx, "t2")
    assert await count_living_tokens(tx) == 1
    assert [row.token_id for row in await list_tokens(tx, with_revoked=False, batch_max=9)] == [
        "t2"
    ]
    assert len(await list_tokens(tx, with_revoked=True, batch_max=9)) == 2


async def test_the_secret_before_lives_as_long_as_its_grace(world: World, ledger: Ledger) -> None:
    database = ledger.database
    async with database.transaction() as tx:
        await add(tx)
        assert await rotate_token(tx, "ci", secret_hash=NEW, grace=timedelta(minutes=1)) == (
            "t1",
            "ci",
        )
    [row] = await read_living_tokens(database)
    assert (row.secret_hash, row.previous_hash) == (NEW, OLD)
    await world.clock.advance(61)
    [row] = await read_living_tokens(database)
    assert (row.secret_hash, row.previous_hash, row.previous_until) == (NEW, None, None)


async def test_what_is_over_is_not_read_and_use_is_noted(world: World, ledger: Ledger) -> None:
    database = ledger.database
    async with database.transaction() as tx:
        now = await tx.now()
        await add(tx, expires_at=now + timedelta(minutes=1))
        await add(tx, "t2", "other")
    before = await read_living_tokens(database)
    assert await note_tokens_used(database, ["t1", "t3"]) == 1
    assert await read_living_tokens(database) == before
    async with database.transaction() as tx:
        used = {row.token_id: row.last_used_at for row in await _all(tx)}
    assert used["t1"] is not None
    assert used["t2"] is None
    await world.clock.advance(61)
    assert [row.token_id for row in await read_living_tokens(database)] == ["t2"]


async def _all(tx: Transaction) -> list[Any]:
    return await list_tokens(tx, with_revoked=True, batch_max=9)
