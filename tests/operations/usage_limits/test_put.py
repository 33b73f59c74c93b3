"""Limits are put while work goes on: each change is recorded, and nothing that runs is ended."""

import asyncio
from collections import Counter

import msgspec
import pytest

from holdfast.errors import Invalid, TooLarge, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.operations.usage_limits import put
from holdfast.operations.usage_limits.open import open_forgotten
from holdfast.operations.usage_limits.put import put_limit
from holdfast.operations.usage_limits.tend import Gates
from holdfast.store.reads.actions import ActionFilter, list_actions
from tests.audits import assert_audit_is_silent
from tests.usage_limits import FIVE, hold, set_limit
from tests.world import World

TWO = msgspec.structs.replace(FIVE, most=2.0)


async def test_each_change_is_recorded_with_what_was_before(ledger: Ledger, world: World) -> None:
    first = await put_limit(ledger, "mail", FIVE, actor="ann")
    assert (first.is_changed, first.stored.limit, first.stored.updated_by) == (True, FIVE, "ann")
    repeated = await put_limit(ledger, "mail", FIVE, actor="bob")
    assert (repeated.is_changed, repeated.stored) == (False, first.stored)
    second = await put_limit(ledger, "mail", TWO, actor="bob")
    assert (second.stored.limit_id, second.stored.updated_by) == (first.stored.limit_id, "bob")
    async with ledger.database.transaction() as tx:
        rows = await list_actions(tx, ActionFilter(subject="mail"), count_max=9)
    said = {"scope": "queue", "kind": "concurrency", "most": 5.0}
    assert [(row.actor, row.action, row.subject_kind) for row in rows] == [
        ("bob", "put_limit", "limit"),
        ("ann", "put_limit", "limit"),
    ]
    assert [msgspec.json.decode(row.facts or "") for row in rows] == [
        {"before": said, "after": said | {"most": 2.0}},
        {"before": None, "after": said},
    ]


async def test_what_runs_goes_on_below_a_lowered_limit(ledger: Ledger, world: World) -> None:
    bucket = await set_limit(world)
    task_ids = await hold(world, bucket, count=4)
    lowered = await put_limit(ledger, "mail", TWO, actor="ann")
    assert (lowered.use.held, lowered.use.surplus, lowered.use.buckets_held) == (4, 2, 1)
    [row] = await world.clock.fetch("select count(*) from holdfast.leases")
    assert row[0] == len(task_ids)


async def test_what_runs_counts_for_a_limit_that_is_new(ledger: Ledger, world: World) -> None:
    await world.submit([1, 2])
    running = await world.claim(2)
    await put_limit(ledger, "one", msgspec.structs.replace(FIVE, most=1.0), actor="ann")
    await world.submit([3])
    assert await world.claim(1) == []
    await world.succeed(running[0])
    assert await world.claim(1) == []
    await world.succeed(running[1])
    assert [claim.input for claim in await world.claim(1)] == ["3"]
    await assert_audit_is_silent(ledger.database)


async def test_a_raised_limit_lets_go_at_once_what_fits(ledger: Ledger, world: World) -> None:
    one = UsageLimit(scope="owner", kind="concurrency", most=1, only_for="ann")
    await put_limit(ledger, "anns", one, actor="ann")
    await world.submit([*range(30)], owner="ann")
    assert len(await world.claim(9)) == 1
    assert await world.claim(9) == []
    bobs = await world.submit([*range(5)], owner="bob")
    await put_limit(ledger, "anns", msgspec.structs.replace(one, most=20), actor="ann")
    owners = Counter(claim.task_id.job_id == bobs for claim in await world.claim(40))
    assert owners == {False: 19, True: 5}
    await assert_audit_is_silent(ledger.database)


async def test_a_limit_that_cannot_be_right_changes_nothing(ledger: Ledger, world: World) -> None:
    await put_limit(ledger, "mail", FIVE, actor="ann")
    before = await world.clock.fetch("select * from holdfast.usage_limits")
    refused = [
        ("mail", msgspec.structs.replace(FIVE, most=-1.0), "most"),
        ("mail", msgspec.structs.replace(FIVE, scope="owner"), "scope"),
        ("a b", FIVE, "name"),
    ]
    for name, limit, field in refused:
        with pytest.raises(Invalid) as error:
            await put_limit(ledger, name, limit, actor="ann")
        assert error.value.field == field
    assert await world.clock.fetch("select * from holdfast.usage_limits") == before
    assert await world.count("actions") == 1


async def test_their_number_is_limited(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put, "LIMITS_MAX", 1)
    await put_limit(ledger, "mail", FIVE, actor="ann")
    await put_limit(ledger, "mail", TWO, actor="ann")
    with pytest.raises(TooLarge, match="2 limits"):
        await put_limit(ledger, "more", FIVE, actor="ann")


async def put_at_last(ledger: Ledger, name: str, limit: UsageLimit) -> Invalid | None:
    """Put a limit as clients do: again if others are in the way. Returns why it was refused."""
    while True:
        try:
            await put_limit(ledger, name, limit, actor="ann")
        except Unavailable:
            continue
        except Invalid as refused:
            return refused
        return None


async def test_of_five_limits_that_a_task_could_hold_one_is_refused_however_they_come(
    ledger: Ledger, world: World
) -> None:
    rate = UsageLimit(scope="queue", kind="window", most=5, period=1)
    answers = await asyncio.gather(
        *(put_at_last(ledger, f"slots-{number}", FIVE) for number in range(5)),
        put_at_last(ledger, "rate", rate),
    )
    [refused] = [answer for answer in answers if answer is not None]
    assert refused.field == "limits"
    assert await world.count("usage_limits") == 5


async def test_who_is_not_meant_any_more_waits_no_longer(ledger: Ledger, world: World) -> None:
    stop = UsageLimit(scope="type", kind="concurrency", most=0)
    await put_limit(ledger, "stop", stop, actor="ann")
    job_id = await world.submit([1, 2])
    bad = await world.submit(type="bad")
    assert await world.claim(9) == []
    only_bad = msgspec.structs.replace(stop, only_for="bad")
    await put_limit(ledger, "stop", only_bad, actor="ann")
    assert await open_forgotten(ledger) == 3
    claims = await world.claim(9)
    assert [claim.task_id.job_id for claim in claims] == [job_id] * 2
    await put_limit(ledger, "stop", msgspec.structs.replace(only_bad, most=1), actor="ann")
    await Gates(ledger).look()
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [bad]
    await assert_audit_is_silent(ledger.database)
