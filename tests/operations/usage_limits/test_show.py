"""Limits as they are read: by name, and one with its buckets and who holds them."""

import pytest

from holdfast.errors import NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.operations.usage_limits.show import list_limits, show_limit
from holdfast.store.reads.limits.usage_limits import LimitUse
from tests.usage_limits import add_bucket, gate, hold, set_limit
from tests.world import World


async def test_limits_are_listed_with_what_is_held_and_gated(ledger: Ledger, world: World) -> None:
    assert await list_limits(ledger.database) == []
    mail, idle = await set_limit(world), await set_limit(world, "idle")
    await hold(world, mail, count=2, slots=3)
    await gate(world, mail, count=4)
    found = await list_limits(ledger.database)
    assert [(stored.name, use) for stored, use in found] == [
        ("idle", LimitUse(found[0][0].limit_id, buckets=1)),
        ("mail", LimitUse(found[1][0].limit_id, 1, 1, 6, surplus=1, gated=4)),
    ]
    assert idle != mail
    assert await list_limits(ledger.database, after="idle", count_max=1) == found[1:]


async def test_a_bucket_names_those_who_hold_its_slots(ledger: Ledger, world: World) -> None:
    bucket = await set_limit(world)
    await add_bucket(world, "mail", "a")
    task_ids = await hold(world, bucket, count=2)
    shown = await show_limit(ledger.database, "mail")
    assert [(row.value, row.held, row.gated) for row in shown.buckets] == [("a", 0, 0), ("q", 2, 0)]
    holders = shown.holders[bucket]
    assert [(row.job_id, row.worker_id, row.slots) for row in holders] == [
        (task_id.job_id, "w1", 1) for task_id in task_ids
    ]
    [one] = (await show_limit(ledger.database, "mail", value="q")).buckets
    assert one == shown.buckets[1]
    assert (await show_limit(ledger.database, "mail", after="a", count_max=1)).buckets == [one]
    with pytest.raises(NotFound, match="no limit nothing"):
        await show_limit(ledger.database, "nothing")
