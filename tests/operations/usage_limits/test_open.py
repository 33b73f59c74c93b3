"""What is put back in line is told to those who wait for it."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.ids import TaskId
from holdfast.operations.usage_limits import open as gates
from holdfast.operations.usage_limits.open import open_forgotten
from tests.usage_limits import gate, set_limit
from tests.world import World


async def test_pollers_hear_of_what_is_open_again(ledger: Ledger, world: World) -> None:
    bucket = await set_limit(world)
    job_id = await gate(world, bucket, count=2)
    heard: list[News] = []
    ledger.on_commit = heard.append
    assert await open_forgotten(ledger) == 0
    await world.clock.fetch("delete from holdfast.usage_limits")
    assert await open_forgotten(ledger) == 2
    found = {queue: sorted(ids) for news in heard for queue, ids in news.ready.items()}
    assert found == {"q": [TaskId(job_id, 0), TaskId(job_id, 1)]}


async def test_what_stands_after_many_buckets_that_hold_is_found_too(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "BUCKETS_MAX", 2)
    for number in range(3):
        await gate(world, await set_limit(world, f"other-{number}"))
    job_id = await gate(world, await set_limit(world), count=2)
    await world.clock.fetch("delete from holdfast.usage_limits where name = 'mail'")
    chore = gates.Forgotten(ledger)
    for _ in range(3):
        assert not await chore.look()
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [job_id] * 2
    await world.clock.fetch("delete from holdfast.usage_limits where name = 'other-2'")
    assert await gates.open_forgotten(ledger) == 1
    assert await gates.open_forgotten(ledger) == 0
