"""A limit that is deleted holds nothing back."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.operations.usage_limits import delete
from holdfast.operations.usage_limits import open as gates
from holdfast.operations.usage_limits.delete import delete_limit
from tests.usage_limits import gate, hold, set_limit
from tests.world import World


async def test_what_it_held_back_is_put_in_line_again(ledger: Ledger, world: World) -> None:
    bucket, other = await set_limit(world), await set_limit(world, "other")
    await hold(world, bucket, count=2)
    mine, theirs = await gate(world, bucket, count=3), await gate(world, other)
    assert await delete_limit(ledger, "mail", actor="bob")
    claimed = {claim.task_id for claim in await world.claim(9)}
    assert {task_id.job_id for task_id in claimed} == {mine}
    assert len(claimed) == 3
    rows = await world.clock.fetch("select job_id from holdfast.gated")
    assert [row[0] for row in rows] == [theirs]
    assert await world.count("leases") == 2 + 3
    assert not await delete_limit(ledger, "mail", actor="bob")
    done = await world.clock.fetch(
        "select actor, facts -> 'after' from holdfast.actions where action = 'delete_limit'"
    )
    assert [tuple(row) for row in done] == [("bob", "null")]


async def test_more_than_is_opened_at_once_is_left_to_the_chore(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete, "BATCHES_MAX", 0)
    job_id = await gate(world, await set_limit(world), count=5)
    await delete_limit(ledger, "mail", actor="bob")
    assert await world.claim(9) == []
    assert await gates.open_forgotten(ledger, 3) == 3
    assert await gates.open_forgotten(ledger, 3) == 2
    assert await gates.open_forgotten(ledger, 3) == 0
    claims = await world.claim(9)
    assert [claim.task_id.job_id for claim in claims] == [job_id] * 5
