"""What is left behind limits is found, and buckets that nobody uses are forgotten."""

from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import LIVE_STATES
from holdfast.operations.dead_letters import dead_letter_task
from holdfast.operations.usage_limits.delete import delete_limit
from holdfast.operations.usage_limits.put import put_limit
from holdfast.operations.usage_limits.tend import Buckets, Cancelled, Gates
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.limits import count_rows, set_limit
from tests.world import World


async def test_what_a_race_left_behind_a_limit_is_let_go(world: World, ledger: Ledger) -> None:
    limit_id = await set_limit(world.clock, "owners", "owner", 1)
    await world.submit([1, 2, 3])
    assert len(await world.claim(3)) == 1
    assert await count_rows(world.clock, "gated") == 2
    await Gates(ledger).look()
    assert await count_rows(world.clock, "gated") == 2
    await world.clock.fetch(
        "update holdfast.usage_limits set most = 2 where limit_id = $1", limit_id
    )
    await Gates(ledger).look()
    assert await count_rows(world.clock, "gated") == 1
    assert len(await world.claim(3)) == 1
    await assert_audit_is_silent(ledger.database)


async def test_what_waits_behind_a_deleted_limit_returns_to_its_line(
    world: World, ledger: Ledger
) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    await set_limit(world.clock, "types", "type", 4)
    await world.submit([1, 2, 3])
    [held] = await world.claim(3)
    await delete_limit(ledger, "owners", actor="ann")
    assert await count_rows(world.clock, "gated") == 0
    assert len(await world.claim(3)) == 2
    await world.succeed(held)
    await assert_audit_is_silent(ledger.database)


async def test_what_runs_holds_slots_of_a_limit_that_is_set_later(
    world: World, ledger: Ledger
) -> None:
    await world.submit([1, 2, 3, 4])
    held = await world.claim(3)
    await put_limit(
        ledger, "owners", UsageLimit(scope="owner", kind="concurrency", most=2), actor="ann"
    )
    assert await world.claim(3) == []
    await world.succeed(held[0])
    assert await world.claim(3) == []
    await world.succeed(held[1])
    assert len(await world.claim(3)) == 1
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        ("dead letter", {}),
        ("cancel of tasks", {}),
        ("cancel of the job", {}),
        ("failure of the job", {"max_task_failures": 0, "on_exhausted": "fail"}),
        ("time", {"expires": 5.0}),
        ("time", {"scheduling_timeout": 5.0}),
        ("replacement", {"unique": {"values": [1], "on_conflict": "replace"}}),
    ],
)
async def test_what_ends_while_it_waits_behind_a_limit_leaves_nothing_there(
    world: World, ledger: Ledger, how: str, fields: dict[str, Any]
) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    if how != "failure of the job":
        await world.submit(queue="first")
    job_id = await world.submit([1, 2, 3], **fields)
    [running] = await world.claim(9, queue="q" if how == "failure of the job" else "first")
    assert await world.claim(9) == []
    waiting = await count_rows(world.clock, "gated")
    for index in range(3):
        if how == "dead letter":
            await dead_letter_task(ledger, TaskId(job_id, index), actor="ann")
        elif how == "cancel of tasks":
            await world.cancel_task(TaskId(job_id, index))
    if how == "cancel of the job":
        await world.cancel_job(job_id)
    elif how == "failure of the job":
        await world.complete(running, "failed", error_class="PermanentError")
    elif how == "replacement":
        await world.submit([1, 2, 3], **fields)
    await world.pass_time(10)
    gated = await world.clock.fetch("select from holdfast.gated where job_id = $1", job_id)
    assert [waiting, len(gated)] == [2 if how == "failure of the job" else 3, 0]
    assert (await world.task(TaskId(job_id, 2))).state not in LIVE_STATES
    await assert_audit_is_silent(ledger.database)


async def test_a_bucket_that_nobody_uses_is_forgotten(world: World, ledger: Ledger) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    await world.submit([1, 2])
    [held] = await world.claim(1)
    await Buckets(ledger).clear()
    assert await count_rows(world.clock, "limit_buckets") == 1
    await world.succeed(held)
    [held] = await world.claim(1)
    await world.succeed(held)
    await Buckets(ledger).clear()
    assert await count_rows(world.clock, "limit_buckets") == 0


async def test_a_queue_from_which_nobody_takes_holds_up_no_other_behind_slots(
    world: World, ledger: Ledger
) -> None:
    await put_limit(
        ledger, "owners", UsageLimit(scope="owner", kind="concurrency", most=1), actor="ann"
    )
    await world.submit()
    [held] = await world.claim(1)
    await world.submit(list(range(9)), queue="deserted")
    live = await world.submit()
    assert await world.claim(9, queue="deserted") == await world.claim(9) == []
    await world.succeed(held)
    gates = Gates(ledger)
    await gates.look()
    await gates.look()
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [live]
    await assert_audit_is_silent(ledger.database)


async def test_a_queue_from_which_nobody_takes_holds_up_no_other_behind_a_rate(
    world: World, ledger: Ledger
) -> None:
    rate = UsageLimit(scope="owner", kind="bucket", most=1, period=1, burst=1)
    await put_limit(ledger, "owners", rate, actor="ann")
    await world.submit()
    assert len(await world.claim(1)) == 1
    await world.submit([1, 2, 3], queue="deserted")
    live = await world.submit([1, 2])
    assert await world.claim(9, queue="deserted") == await world.claim(9) == []
    gates = Gates(ledger)
    for _ in range(2):
        await world.clock.advance(4)
        await gates.look()
        assert [claim.task_id.job_id for claim in await world.claim(9)] == [live]
    await assert_audit_is_silent(ledger.database)


async def test_who_takes_several_slots_and_stays_is_passed_by_nobody(
    world: World, ledger: Ledger
) -> None:
    limit = UsageLimit(scope="owner", kind="concurrency", most=3)
    await put_limit(ledger, "owners", limit, actor="ann")
    await world.submit(slots=2)
    [held] = await world.claim(1)
    large = await world.submit(slots=3)
    small = await world.submit(queue="other")
    assert await world.claim(9) == await world.claim(9, queue="other") == []
    await Gates(ledger).look()
    assert await count_rows(world.clock, "gated") == 2
    await world.succeed(held)
    [claim] = await world.claim(9)
    assert claim.task_id.job_id == large
    await world.succeed(claim)
    [claim] = await world.claim(9, queue="other")
    assert claim.task_id.job_id == small


async def test_who_can_never_start_since_another_limit_is_lower_is_in_nobodys_way(
    world: World, ledger: Ledger
) -> None:
    await set_limit(world.clock, "keys", "key", 2)
    await world.submit(concurrency_key="k")
    await world.submit(concurrency_key="k", type="load", slots=2)
    assert len(await world.claim(9)) == 1
    limit = UsageLimit(scope="type", kind="concurrency", most=1, only_for="load")
    await put_limit(ledger, "types", limit, actor="ann")
    small = await world.submit(concurrency_key="k")
    assert await world.claim(9) == []
    await Gates(ledger).look()
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [small]
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize(
    ("holder", "crowd", "last", "others"),
    [
        pytest.param("load x", "load hot", "load cold", ["mail hot", "read hot"], id="a full key"),
        pytest.param("mail x", "load x", "save x", ["load y", "load z"], id="a full type"),
        pytest.param(
            "load x", "load hot", "load cold", ["mail hot", "read hot 2"], id="a kept key"
        ),
    ],
)
async def test_a_crowd_that_has_to_wait_for_something_else_leaves_the_line_at_once(
    world: World, ledger: Ledger, holder: str, crowd: str, last: str, others: list[str]
) -> None:
    async def submit(what: str, **fields: Any) -> int:
        type_name, key, *slots = what.split()
        return await world.submit(
            type=type_name, concurrency_key=key, slots=int(slots[0]) if slots else 1, **fields
        )

    await set_limit(world.clock, "types", "type", 2)
    await set_limit(world.clock, "keys", "key", 2)
    await submit(f"{holder} 2")
    [held] = await world.claim(1)
    for _ in range(6):
        await submit(crowd)
    small = await submit(last)
    assert await world.claim(9) == []
    # Meanwhile, what the crowd needs besides is taken, or kept for one of higher priority.
    for other in others:
        await submit(other, priority=1)
    await world.claim(9)
    await world.succeed(held)
    assert await world.claim(9) == []
    await Gates(ledger).look()
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [small]
    await assert_audit_is_silent(ledger.database)


async def test_what_was_cancelled_behind_a_closed_limit_while_somebody_held_it_is_dropped(
    world: World, ledger: Ledger, database: Database
) -> None:
    await set_limit(world.clock, "owners", "owner", 0)
    gone, live = await world.submit([1, 2]), await world.submit([3])
    assert await world.claim(9) == []
    async with database.transaction() as holder:
        await holder.connection.execute(
            "select from holdfast.gated where job_id = $1 and task_index = 1 for update", gone
        )
        await world.cancel_job(gone)
    assert await count_rows(world.clock, "gated") == 2, "the one that was held is left"
    assert await Cancelled(ledger).clear() is False
    [row] = await world.clock.fetch("select job_id from holdfast.gated")
    assert row["job_id"] == live
    await assert_audit_is_silent(ledger.database)
