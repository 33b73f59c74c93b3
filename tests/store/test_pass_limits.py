"""Limits as the database decides by them: never exceeded, in order, and nobody is forgotten."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import asyncpg
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.usage_limits.tend import Gates
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.limits import count_rows, most_held, set_limit
from tests.waiting import insist
from tests.world import World

KEYED: dict[str, Any] = {"concurrency_key": {"input": "customer"}}


@pytest.fixture
async def world(ledger: Ledger, clock: Clock) -> AsyncIterator[World]:
    """A ledger that the audit has nothing to say of at the end."""
    world = World(ledger, clock)
    await world.watch()
    yield world
    await assert_audit_is_silent(ledger.database)


def of(*customers: str) -> list[dict[str, str]]:
    """Make an input for each customer's turn."""
    return [{"customer": customer} for customer in customers]


def inputs_of(claims: list[Claim]) -> list[str | None]:
    """Say what was claimed."""
    return [claim.input for claim in claims]


async def test_a_key_starts_no_more_than_its_slots_and_others_go_on(world: World) -> None:
    await set_limit(world.clock, "per key", "key", 2)
    await world.submit(of("a", "a", "a", "a", "b"), **KEYED)
    first = await world.claim(10)
    assert [claim.task_id.task_index for claim in first] == [0, 1, 4]
    assert await count_rows(world.clock, "gated") == 2
    assert await world.claim(10) == []
    await world.succeed(first[0])
    [second] = await world.claim(10)
    assert second.task_id.task_index == 2
    await world.succeed(first[2])
    assert await world.claim(10) == []
    for claim in (first[1], second):
        await world.succeed(claim)
    [third] = await world.claim(10)
    await world.succeed(third)
    assert (await most_held(world.clock, "key")) == {"a": 2, "b": 1}
    assert await count_rows(world.clock, "gated") == 0


async def test_a_queue_that_is_full_keeps_its_tasks_in_line(world: World) -> None:
    await set_limit(world.clock, "per queue", "queue", 2)
    await world.submit([1, 2, 3])
    await world.submit([4], queue="other")
    held = await world.claim(10)
    assert inputs_of(held) == ["1", "2"]
    assert await world.claim(10) == []
    assert await count_rows(world.clock, "gated") == 0
    assert inputs_of(await world.claim(10, queue="other")) == ["4"]
    await world.succeed(held[1])
    assert inputs_of(await world.claim(10)) == ["3"]


@pytest.mark.parametrize(
    ("scope", "mine", "others"),
    [
        ("owner", {"owner": "ann"}, {"owner": "bob"}),
        ("type", {"type": "load"}, {"type": "save"}),
        ("key", {"concurrency_key": "x"}, {}),
    ],
)
async def test_a_limit_may_be_for_one_alone(
    world: World, scope: str, mine: dict[str, Any], others: dict[str, Any]
) -> None:
    await set_limit(world.clock, "one", scope, 1, only_for=next(iter(mine.values())))
    await world.submit([1, 2], **mine)
    await world.submit([3, 4], **others)
    assert inputs_of(await world.claim(10)) == ["1", "3", "4"]


async def test_a_limit_counts_in_its_queue_and_for_its_type_alone(world: World) -> None:
    await set_limit(world.clock, "one", "owner", 1, in_queue="q", in_type="load")
    await world.submit([1, 2], type="load")
    await world.submit([3, 4], type="save")
    await world.submit([5, 6], type="load", queue="other")
    assert inputs_of(await world.claim(10)) == ["1", "3", "4"]
    assert inputs_of(await world.claim(10, queue="other")) == ["5", "6"]


async def test_a_task_that_takes_several_slots_is_not_passed_by_what_came_later(
    world: World,
) -> None:
    await set_limit(world.clock, "owner", "owner", 4)
    await world.submit([1, 2])
    small = await world.claim(2)
    await world.submit([3], slots=3)
    await world.submit([4, 5])
    assert await world.claim(10) == []
    await world.succeed(small[0])
    assert inputs_of(await world.claim(10)) == ["3"]
    assert await world.claim(10) == []
    await world.succeed(small[1])
    assert inputs_of(await world.claim(10)) == ["4"]
    assert (await most_held(world.clock, "owner")) == {"anonymous": 4}


async def test_a_task_that_takes_more_than_there_is_stands_in_nobodys_way(world: World) -> None:
    await set_limit(world.clock, "owner", "owner", 2)
    await set_limit(world.clock, "queue", "queue", 2)
    await world.submit([1], slots=3)
    await world.submit([2, 3, 4])
    held = await world.claim(3) + await world.claim(3)
    assert inputs_of(held) == ["2", "3"]
    assert await count_rows(world.clock, "gated") == 1
    for claim in held:
        await world.succeed(claim)
    assert inputs_of(await world.claim(3)) == ["4"]


async def test_what_one_limit_can_never_let_start_keeps_no_slots_of_another(world: World) -> None:
    await set_limit(world.clock, "types", "type", 1, only_for="load")
    await set_limit(world.clock, "keys", "key", 2)
    await world.submit([1], concurrency_key="k")
    await world.submit([2], concurrency_key="k", type="load", slots=2)
    await world.submit([3], concurrency_key="k")
    assert inputs_of(await world.claim(10)) == ["1", "3"]


async def test_several_limits_hold_at_once(world: World) -> None:
    await set_limit(world.clock, "keys", "key", 1)
    await set_limit(world.clock, "owners", "owner", 2)
    await world.submit(of("a", "a", "b", "c"), **KEYED)
    first = await world.claim(10)
    assert [claim.task_id.task_index for claim in first] == [0, 2]
    await world.succeed(first[0])
    [next_claim] = await world.claim(10)
    assert next_claim.task_id.task_index == 1
    await world.succeed(first[1])
    [last] = await world.claim(10)
    assert last.task_id.task_index == 3


async def test_an_attempt_that_is_asked_to_end_keeps_its_slot_until_it_is_gone(
    world: World,
) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    await world.submit([1, 2])
    [held] = await world.claim(10)
    await world.cancel_task(held.task_id, "hard")
    assert await world.claim(10) == []
    await world.pass_time(60)
    assert inputs_of(await world.claim(10)) == ["2"]


async def test_who_comes_while_an_attempt_is_ending_waits_for_its_slot(world: World) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    await world.submit([1])
    [held] = await world.claim(10)
    await world.cancel_task(held.task_id, "hard")
    await world.submit([2])
    assert await world.claim(10) == []
    await world.pass_time(60)
    assert inputs_of(await world.claim(10)) == ["2"]


async def test_a_retry_does_not_pass_one_that_waits_for_several_slots(world: World) -> None:
    await set_limit(world.clock, "owner", "owner", 5)
    await world.submit([1, 2, 3], max_retries_failure=1)
    *running, failing = await world.claim(3)
    await world.submit([4], slots=4)
    assert await world.claim(10) == []
    await world.fail(failing)
    await world.pass_time(2)
    assert await world.claim(10) == [], "its retry stands in line, behind the large one"
    await world.succeed(running[0])
    assert inputs_of(await world.claim(10)) == ["4"]


async def test_a_failure_frees_the_slot_for_whoever_is_next(world: World) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    await world.submit([1, 2], on_exhausted="fail")
    [held] = await world.claim(10)
    await world.fail(held)
    assert inputs_of(await world.claim(10)) == ["2"]


async def test_what_is_cancelled_while_it_waits_leaves_the_line_behind_its_limit(
    world: World,
) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    job_id = await world.submit([1, 2])
    other = await world.submit([3])
    [held] = await world.claim(10)
    assert await count_rows(world.clock, "gated") == 2
    await world.cancel_job(job_id, "soft")
    assert await count_rows(world.clock, "gated") == 1
    await world.succeed(held)
    [claim] = await world.claim(10)
    assert claim.task_id.job_id == other


async def test_a_task_behind_a_limit_is_given_up_after_its_scheduling_timeout(
    world: World,
) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    job_id = await world.submit([1, 2], scheduling_timeout=20)
    await world.claim(10)
    await world.pass_time(25)
    assert (await world.task(TaskId(job_id, 1))).state == TaskState.UNSCHEDULABLE


async def test_a_claim_looks_past_what_has_to_wait(world: World) -> None:
    await set_limit(world.clock, "keys", "key", 1)
    await world.submit([1] * 500, concurrency_key="hot")
    await world.submit([2], concurrency_key="cold")
    assert inputs_of(await world.claim(1)) == ["1"]
    assert inputs_of(await world.claim(1)) == ["2"]


async def test_what_several_limits_hold_up_waits_behind_the_narrowest(world: World) -> None:
    await set_limit(world.clock, "types", "type", 2)
    await set_limit(world.clock, "keys", "key", 1)
    await world.submit(of("a", "b", "a", "c"), **KEYED)
    first = await world.claim(10)
    rows = await world.clock.fetch(
        "select name from holdfast.gated join holdfast.limit_buckets using (bucket_id) "
        "join holdfast.usage_limits using (limit_id) order by task_index"
    )
    assert [row[0] for row in rows] == ["keys", "types"]
    await world.succeed(first[1])
    [claim] = await world.claim(10)
    assert claim.task_id.task_index == 3


async def test_a_call_without_inputs_is_limited_by_its_arguments(world: World) -> None:
    await set_limit(world.clock, "keys", "key", 1)
    for arguments in (
        {"args": [{"customer": "a"}]},
        {"kwargs": {"customer": "a"}},
        {"args": [{"customer": "b"}], "kwargs": {"customer": "a"}},
        {"args": [{"customer": None}]},
        {"kwargs": {"customer": None}},
    ):
        entrypoint = {"function": "app:work"} | arguments
        await world.submit(entrypoint=entrypoint, **KEYED)
    claims = [claim.task_id.job_id for claim in await world.claim(10)]
    assert [job_id - claims[0] for job_id in claims] == [0, 2, 3, 4]


async def test_a_long_key_counts_by_its_hash_on_every_road(world: World) -> None:
    await set_limit(world.clock, "keys", "key", 1)
    await world.submit(of("x" * 300, "x" * 300, "x" * 299), **KEYED)
    job_id = await world.submit(of(*["x" * 300] * 120), **KEYED)
    assert len(await world.claim(10)) == 2
    rows = await world.clock.fetch("select value from holdfast.limit_buckets")
    assert {row[0][:7] for row in rows} == {"sha256:"}
    assert len(rows) == 2
    gated = await world.clock.fetch("select from holdfast.gated where job_id = $1", job_id)
    assert len(gated) >= 20


async def test_no_slot_is_counted_by_a_snapshot_from_before_it_was_taken(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    nothing = ", ".join(["'{}'"] * 11)
    with pytest.raises(asyncpg.RaiseError, match="isolation level repeatable read"):
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch(f"select * from holdfast.pass_limits({nothing}, 1)")
    await connection.close()


async def test_claimers_at_once_never_exceed_a_limit(
    world: World, ledger: Ledger, database_url: str
) -> None:
    await set_limit(world.clock, "keys", "key", 2)
    await set_limit(world.clock, "queues", "queue", 6)
    await world.submit(of(*"aaaabbaacaadaaeabaacaadbbbccdaaabbaaccaaddaabbcc" * 2), **KEYED)
    left = [96]

    async def work(number: int) -> None:
        async with Database(database_url, connections_max=1) as database:
            mine = World(Ledger(database), world.clock)
            while left[0]:
                for claim in await insist(partial(mine.claim, 3, worker=f"w{number}")):
                    await insist(partial(mine.succeed, claim))
                    left[0] -= 1

    async def look() -> None:
        # Who is put behind a limit while its last slot is freed is found by the chore.
        gates = Gates(ledger)
        while left[0]:
            await insist(gates.look)
            await asyncio.sleep(0.05)

    async with asyncio.timeout(100):
        await asyncio.gather(look(), *map(work, range(8)))
    most = await most_held(world.clock, "key")
    assert max(most.values()) == 2
    assert (await most_held(world.clock, "queue"))["q"] <= 6
    assert await count_rows(world.clock, "gated") + await count_rows(world.clock, "leases") == 0
