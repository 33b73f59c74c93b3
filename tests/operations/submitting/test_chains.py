"""Chains: jobs of one key, one at a time, in the order of their submission."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, NotFound, TooLarge
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.dead_letters import dead_letter_task
from holdfast.operations.ending.dependents import let_pass
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.writers import Writers
from tests.audits import assert_audit_is_silent
from tests.world import World

SPEC = {"entrypoint": {"command": ["true"]}, "queue": "q", "chain": "customer-7"}


def a_submission(**fields: Any) -> Submission:
    return Submission(parse_spec(SPEC | fields))


async def join(world: World, **fields: Any) -> int:
    """Submit a job of the chain."""
    [answer] = await submit(world.ledger, [a_submission(**fields)])
    assert isinstance(answer, Submitted), answer
    return answer.job_id


async def finish(world: World, status: str = "succeeded", expected: int | None = None) -> int:
    """End the only task that can be claimed, and let follow what follows."""
    [claim, *others] = await world.claim(9)
    assert others == [], "one at a time"
    job_id = claim.task_id.job_id
    assert expected in (None, job_id)
    await world.complete(claim, status)
    await world.run_chores()
    return job_id


async def test_jobs_of_a_chain_run_one_at_a_time_in_the_order_of_their_submission(
    world: World,
) -> None:
    first, second, third = [await join(world) for _ in range(3)]
    other = await join(world, chain="customer-8")
    whose = await join(world, owner="somebody else")
    claims = await world.claim(9)
    assert {claim.task_id.job_id for claim in claims} == {first, other, whose}
    await assert_audit_is_silent(world.ledger.database)
    for claim in claims:
        await world.succeed(claim)
    await world.run_chores()
    for job_id in (second, third):
        await finish(world, expected=job_id)
    await assert_audit_is_silent(world.ledger.database)


async def test_a_batch_joins_in_its_own_order(world: World) -> None:
    before = await join(world)
    answers = await submit(world.ledger, [a_submission(name=f"n{n}") for n in range(20)])
    job_ids = [before, *(each.job_id for each in answers if isinstance(each, Submitted))]
    assert job_ids == sorted(job_ids)
    assert [await finish(world) for _ in job_ids] == job_ids
    await assert_audit_is_silent(world.ledger.database)


async def test_who_joins_after_all_have_ended_waits_for_nobody(world: World) -> None:
    await join(world)
    await finish(world)
    await finish(world, expected=await join(world))
    assert await world.count("dependencies") == 0


async def test_submissions_at_the_same_moment_make_one_line(world: World) -> None:
    servers = [Writers(world.ledger) for _ in range(2)]
    submissions = [servers[n % 2].submit(a_submission(name=f"n{n}")) for n in range(16)]
    job_ids = sorted(each.job_id for each in await asyncio.gather(*submissions))
    for server in servers:
        await server.stop()
    assert len(job_ids) == 16
    assert [await finish(world) for _ in job_ids] == job_ids
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("fields", [{}, {"on_failure": "pass"}])
async def test_a_job_that_has_failed_is_passed(world: World, fields: dict[str, Any]) -> None:
    first, second = await join(world, on_exhausted="fail"), await join(world, **fields)
    await finish(world, "failed", expected=first)
    await finish(world, expected=second)


async def test_a_chain_may_stand_still_after_a_failure(world: World) -> None:
    first = await join(world, on_exhausted="fail")
    second = await join(world, on_failure="block")
    third = await join(world, on_failure="block")
    await finish(world, "failed", expected=first)
    await world.watch()
    await world.pass_time(40)
    assert await world.claim() == []
    assert [await world.job_state(each) for each in (second, third)] == [TaskState.PENDING] * 2
    await assert_audit_is_silent(world.ledger.database)


async def test_who_comes_after_a_failure_finds_the_chain_standing_still(world: World) -> None:
    await join(world)
    await finish(world, "failed")
    await join(world, on_failure="block")
    assert await world.claim() == []
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_job_that_was_cancelled_is_passed(world: World, mode: str) -> None:
    first, second, third = [await join(world, on_failure="block") for _ in range(3)]
    await world.cancel_job(second, mode)
    await finish(world, expected=first)
    await finish(world, expected=third)
    await assert_audit_is_silent(world.ledger.database)


async def test_a_repeat_under_a_key_joins_once(world: World) -> None:
    first = await join(world)
    keyed = await join(world, idempotency_key="k")
    assert await join(world, idempotency_key="k") == keyed
    twice = [a_submission(idempotency_key="l"), a_submission(idempotency_key="l"), a_submission()]
    answers = await submit(world.ledger, twice)
    again, same, last = [each.job_id for each in answers if isinstance(each, Submitted)]
    assert again == same
    assert [await finish(world) for _ in range(4)] == [first, keyed, again, last]
    await assert_audit_is_silent(world.ledger.database)


async def test_it_may_wait_for_other_jobs_too(world: World) -> None:
    other = await world.submit(queue="elsewhere")
    first = await join(world)
    second = await join(world, depends_on=[str(other), str(first)])
    await finish(world, expected=first)
    assert await world.claim() == []
    [claim] = await world.claim(queue="elsewhere")
    await world.succeed(claim)
    await world.run_chores()
    await finish(world, expected=second)


async def test_a_submission_looks_at_no_more_than_the_last(world: World) -> None:
    await join(world)
    counts = []
    for _ in range(3):
        await join(world)
        counts.append(await world.count("dependencies"))
    assert counts == [1, 2, 3]
    assert await world.count("chains") == 1


async def test_what_cannot_be_is_refused(world: World) -> None:
    for fields, field in (
        ({"chain": ""}, "chain"),
        ({"chain": None, "on_failure": "pass"}, "on_failure"),
    ):
        [answer] = await submit(world.ledger, [a_submission(**fields)])
        assert isinstance(answer, Invalid)
        assert answer.field == field
    [answer] = await submit(world.ledger, [a_submission(replicas=10_001)])
    assert isinstance(answer, TooLarge)
    with pytest.raises(Invalid, match=r"specs\[0\].chain: goes with jobs"):
        await submit_batch(world.ledger, [a_submission()])


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_many_that_were_cancelled_while_they_waited_are_passed(
    world: World, order: tuple[int, ...]
) -> None:
    chain = [await join(world) for _ in range(5)]
    for position in order:
        await world.cancel_job(chain[position])
        await world.run_chores()
    await finish(world, expected=chain[0])
    await finish(world, expected=chain[4])
    await assert_audit_is_silent(world.ledger.database)


async def test_a_chain_that_stands_still_does_so_after_a_cancel_of_the_next(world: World) -> None:
    await join(world, on_exhausted="fail")
    second, _ = [await join(world, on_failure="block") for _ in range(2)]
    await finish(world, "failed")
    await world.cancel_job(second)
    await world.run_chores()
    assert await world.claim() == []
    await assert_audit_is_silent(world.ledger.database)


async def test_somebody_lets_a_chain_go_on(world: World) -> None:
    first = await join(world, on_exhausted="fail")
    second = await join(world, on_failure="block")
    with pytest.raises(IllegalMove, match=f"cannot pass job {first}: it is PENDING"):
        await let_pass(world.ledger, first, actor="eve", reason="mended")
    await finish(world, "failed")
    assert await world.claim() == []
    assert await let_pass(world.ledger, first, actor="eve", reason="mended")
    assert not await let_pass(world.ledger, first, actor="eve", reason="mended")
    await assert_audit_is_silent(world.ledger.database)
    await finish(world, expected=second)
    [row] = await world.clock.fetch("select action, subject, actor from holdfast.actions")
    assert tuple(row) == ("let_pass", str(first), "eve")
    with pytest.raises(NotFound):
        await let_pass(world.ledger, 999_999, actor="eve", reason="mended")


async def test_who_joins_after_that_waits_for_nobody(world: World) -> None:
    first = await join(world)
    await finish(world, "failed")
    assert await let_pass(world.ledger, first, actor="eve", reason="mended")
    await finish(world, expected=await join(world, on_failure="block"))


async def test_what_is_run_again_stands_outside(world: World) -> None:
    first = await join(world, on_exhausted="fail")
    second = await join(world, on_failure="block")
    await finish(world, "failed")
    again = await rerun(world.ledger, first, actor="eve")
    assert again.job_id is not None
    await finish(world, expected=again.job_id)
    await let_pass(world.ledger, first, actor="eve", reason="mended")
    await finish(world, expected=second)
    await assert_audit_is_silent(world.ledger.database)


async def end_before_its_turn(
    world: World, how: str, join_next: Callable[[int], Awaitable[int]] | None = None
) -> tuple[Claim, int]:
    """Let a first job run, and end the one behind it, which waits, when the next one has joined."""
    awaited = await world.submit(queue="elsewhere")
    fields: dict[str, dict[str, Any]] = {
        "expiry": {"expires": 5.0},
        "failed dependency": {"depends_on": [str(awaited)]},
        "replacement": {"unique": {"values": [1], "on_conflict": "replace"}, "queue": "second"},
    }
    first, second = await join(world), await join(world, **fields.get(how, {}))
    if join_next is not None:
        await join_next(first)
    [running] = await world.claim(9)
    await world.start(running)
    assert running.task_id.job_id == first
    if how == "cancel":
        await world.cancel_job(second)
    elif how == "failed dependency":
        await world.cancel_job(awaited)
    elif how == "dead letter":
        await dead_letter_task(world.ledger, TaskId(second, 0), actor="ann")
    elif how == "replacement":
        await world.cancel_job(await join(world, **fields[how] | {"chain": None}))
    for _ in range(3):
        await world.clock.advance(3)
        await world.renew(running)
        await world.run_chores()
    assert (await world.job(second))["finished_at"] is not None
    return running, second


@pytest.mark.parametrize(
    "how", ["cancel", "expiry", "failed dependency", "dead letter", "replacement"]
)
async def test_who_comes_after_one_that_ended_before_its_turn_waits_for_those_before(
    world: World, how: str
) -> None:
    running, _ = await end_before_its_turn(world, how)
    third, fourth = await join(world), await join(world)
    assert await world.claim(9) == []
    await assert_audit_is_silent(world.ledger.database)
    await world.succeed(running)
    await world.run_chores()
    await finish(world, expected=third)
    await finish(world, expected=fourth)
    await finish(world, expected=await join(world))
    await assert_audit_is_silent(world.ledger.database)


async def test_many_that_ended_before_their_turns_are_gone_back_over(world: World) -> None:
    first = await join(world)
    for job_id in [await join(world) for _ in range(4)]:
        await world.cancel_job(job_id)
    await world.run_chores()
    last = await join(world, on_failure="block")
    await finish(world, expected=first)
    await finish(world, expected=last)
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("condition", ["ended", "succeeded"])
async def test_a_job_that_names_the_one_before_it_is_in_its_chain_all_the_same(
    world: World, condition: str
) -> None:
    first = await join(world)
    named = {"job": str(first), "condition": condition}
    second = await join(world, depends_on=[named])
    third = await join(world)
    await world.cancel_job(second)
    await world.run_chores()
    fourth = await join(world)
    await finish(world, expected=first)
    await finish(world, expected=third)
    await finish(world, expected=fourth)
    await assert_audit_is_silent(world.ledger.database)


async def test_a_job_that_names_one_further_before_is_in_its_chain_all_the_same(
    world: World,
) -> None:
    first, second = await join(world), await join(world)
    third, fourth = await join(world, depends_on=[str(first)]), await join(world)
    for job_id in (second, third):
        await world.cancel_job(job_id)
        await world.pass_time(3)
    fifth = await join(world)
    for job_id in (first, fourth, fifth):
        await finish(world, expected=job_id)
        await world.pass_time(3)
    await assert_audit_is_silent(world.ledger.database)


async def test_what_a_job_asks_of_the_one_before_it_is_kept(world: World) -> None:
    first, second = await join(world), await join(world)
    named = {"job": str(second), "condition": "succeeded"}
    third, fourth = await join(world, depends_on=[named], on_failure="block"), await join(world)
    await world.cancel_job(second)
    await world.pass_time(3)
    assert await world.job_state(third) == TaskState.PENDING
    await finish(world, expected=first)
    await world.pass_time(3)
    assert await world.job_state(third) == TaskState.KILLED
    await finish(world, expected=fourth)
    await assert_audit_is_silent(world.ledger.database)


async def test_one_that_names_what_ended_before_its_turn_waits_for_those_before(
    world: World,
) -> None:
    running, second = await end_before_its_turn(world, "dead letter")
    named = {"job": str(second), "condition": "ended"}
    third = await join(world, depends_on=[named], on_failure="block")
    assert await world.claim(9) == []
    await world.succeed(running)
    await world.run_chores()
    await finish(world, expected=third)
