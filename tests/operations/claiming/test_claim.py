"""Leasing tasks to workers: in order, once, and with a reason when it cannot be."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.errors import Invalid, KeyReused, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.positions import Positions
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.dead_letters import dead_letter_task
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.operations.register import Registration, register
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.limits import set_limit
from tests.operations.claiming.test_requests import BAD_REQUESTS
from tests.world import World, fence_of

KEYED = ClaimRequest("w1", ("q",), 2, idempotency_key="k")


async def ask(ledger: Ledger, request: ClaimRequest) -> list[Claim]:
    """Send one request that must not be refused."""
    [answer] = await claim(ledger, [request])
    assert isinstance(answer, list), answer
    return answer


async def conflict(ledger: Ledger, task_id: TaskId) -> str:
    """Claim a task that cannot be claimed; returns why."""
    [answer] = await claim(ledger, [ClaimRequest("w9", task_id=task_id)])
    assert isinstance(answer, LeaseConflict), answer
    return answer.reason


async def test_a_claim_assigns_the_task_and_creates_its_lease(world: World) -> None:
    job_id = await world.submit(lease=45.0)
    [mine] = await world.claim(worker="w1")
    lease = await world.lease(TaskId(job_id, 0))
    assert lease is not None
    assert (lease["worker_id"], lease["lease_token"]) == ("w1", mine.lease_token)
    assert lease["expires_at"] - lease["created_at"] == timedelta(seconds=45)
    assert mine.lease_remaining == timedelta(seconds=45)
    task = await world.task(TaskId(job_id, 0))
    assert (task.state, task.attempt, mine.attempt) == (TaskState.ASSIGNED, 0, 0)
    assert await world.job_state(job_id) == TaskState.RUNNING
    assert await world.story(job_id) == ["claimed"]


async def test_higher_priority_goes_first_then_longer_eligibility(world: World) -> None:
    old = await world.submit()
    await world.clock.advance(1)
    young = await world.submit()
    urgent = await world.submit(priority=5)
    idle = await world.submit(priority=-5)
    claims = await world.claim(4)
    assert [mine.task_id.job_id for mine in claims] == [urgent, old, young, idle]


async def test_several_queues_are_one_line(ledger: Ledger, world: World) -> None:
    first = await world.submit(queue="a")
    await world.clock.advance(1)
    urgent = await world.submit(queue="b", priority=1)
    last = await world.submit(queue="b")
    await world.submit(queue="c", priority=9)
    claims = await ask(ledger, ClaimRequest("w1", ("b", "a"), 5))
    assert [mine.task_id.job_id for mine in claims] == [urgent, first, last]


async def test_an_empty_queue_gives_nothing(world: World) -> None:
    assert await world.claim() == []


async def test_requests_in_one_batch_share_what_there_is(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=3)
    answers = await claim(ledger, [ClaimRequest("w1", ("q",), 2), ClaimRequest("w2", ("q",), 2)])
    shares = [
        [mine.task_id.task_index for mine in answer]  # type: ignore[union-attr]
        for answer in answers
    ]
    assert shares == [[0, 1], [2]]


async def test_each_reason_why_a_task_cannot_be_claimed(ledger: Ledger, world: World) -> None:
    running = TaskId(await world.submit(), 0)
    [mine] = await world.claim()
    done = TaskId(await world.submit(), 0)
    await world.succeed(await world.claim_by_id(done))
    flagged = TaskId(await world.submit(), 0)
    await cancel_job(ledger, flagged.job_id, "soft", actor="operator")
    retried = TaskId(await world.submit(max_retries_failure=1), 0)
    await world.fail(await world.claim_by_id(retried))
    placed = TaskId(await world.submit(queue=None), 0)
    halted = TaskId(await world.submit(queue="halted"), 0)
    await pause_queue(ledger, "halted", actor="operator")
    assert await conflict(ledger, running) == "already_running"
    assert await conflict(ledger, done) == "finished"
    assert await conflict(ledger, flagged) == "cancelled"
    assert await conflict(ledger, retried) == "not_eligible"
    assert await conflict(ledger, placed) == "not_claimable"
    assert await conflict(ledger, halted) == "paused"
    assert await conflict(ledger, TaskId(running.job_id, 1)) == "not_found"
    assert await conflict(ledger, TaskId(10**6, 0)) == "not_found"
    await resume_queue(ledger, "halted", actor="ann")
    assert (await world.claim_by_id(halted)).task_id == halted
    assert (await world.lease(running))["lease_token"] == mine.lease_token  # type: ignore[index]


async def test_a_task_before_its_time_is_not_eligible(ledger: Ledger, world: World) -> None:
    [now] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    task_id = TaskId(await world.submit(not_before=now[0] + 60), 0)
    assert await conflict(ledger, task_id) == "not_eligible"
    assert await world.claim() == []
    await world.pass_time(61)
    assert (await world.claim_by_id(task_id)).task_id == task_id


@pytest.mark.parametrize("scope", ["queue", "owner"])
async def test_a_task_that_its_limit_keeps_back_is_limited(
    ledger: Ledger, world: World, scope: str
) -> None:
    await set_limit(world.clock, "one", scope, 1)
    await world.submit()
    await world.claim()
    task_id = TaskId(await world.submit(), 0)
    # Of its owner it stands behind the limit from the first refusal on; of its queue, in line.
    for _ in range(2):
        assert await conflict(ledger, task_id) == "limited"


async def test_an_expired_lease_that_nobody_reaped_is_still_running(
    ledger: Ledger, world: World
) -> None:
    task_id = TaskId(await world.submit(), 0)
    await world.claim()
    await world.clock.advance(300)
    assert await conflict(ledger, task_id) == "already_running"


async def test_two_requests_for_one_task_in_one_batch_have_one_winner(
    ledger: Ledger, world: World
) -> None:
    task_id = TaskId(await world.submit(), 0)
    requests = [ClaimRequest(worker, task_id=task_id) for worker in ("w1", "w2")]
    first, second = await claim(ledger, requests)
    assert isinstance(first, list)
    assert isinstance(second, LeaseConflict)
    assert second.reason == "already_running"


async def test_a_repeat_under_a_key_returns_the_same_leases(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=3)
    first = await ask(ledger, KEYED)
    await world.clock.advance(10)
    again = await ask(ledger, KEYED)
    assert [fence_of(mine) for mine in again] == [fence_of(mine) for mine in first]
    assert all(timedelta(seconds=15) < mine.lease_remaining for mine in again)
    assert all(mine.lease_remaining <= timedelta(seconds=20) for mine in again)
    assert await world.count("leases") == 2


async def test_a_repeat_leaves_out_attempts_that_have_ended(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=3, max_retries_failure=3, backoff={"base": 0.0})
    ended, open_claim = await ask(ledger, KEYED)
    await world.fail(ended)
    await world.run_chores()
    await world.claim_by_id(ended.task_id, worker="w1")
    assert [fence_of(mine) for mine in await ask(ledger, KEYED)] == [fence_of(open_claim)]


async def test_a_repeat_leaves_out_leases_that_are_ending(ledger: Ledger, world: World) -> None:
    await world.submit(inputs=[1, 2])
    killed, open_claim = await ask(ledger, KEYED)
    await world.cancel_task(killed.task_id)
    assert [fence_of(mine) for mine in await ask(ledger, KEYED)] == [fence_of(open_claim)]


async def test_a_repeat_by_id_returns_the_same_lease(ledger: Ledger, world: World) -> None:
    task_id = TaskId(await world.submit(), 0)
    request = ClaimRequest("w1", task_id=task_id, idempotency_key="k")
    [first] = await ask(ledger, request)
    [again] = await ask(ledger, request)
    assert fence_of(again) == fence_of(first)
    await world.succeed(first)
    [answer] = await claim(ledger, [request])
    assert isinstance(answer, LeaseConflict)
    assert answer.reason == "finished"


async def test_a_claim_that_found_nothing_may_find_something_under_its_key_later(
    ledger: Ledger, world: World
) -> None:
    assert await ask(ledger, KEYED) == []
    await world.submit()
    assert len(await ask(ledger, KEYED)) == 1


async def test_a_key_with_a_different_request_is_refused(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=3)
    await ask(ledger, KEYED)
    before = await world.dump()
    other = ClaimRequest("w1", ("q",), 1, idempotency_key="k")
    [answer] = await claim(ledger, [other])
    assert isinstance(answer, KeyReused)
    assert (answer.request, answer.key) == ("claim", "k")
    assert await world.dump() == before


async def test_keys_belong_to_their_worker(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=4)
    mine = await ask(ledger, KEYED)
    yours = await ask(ledger, ClaimRequest("w2", ("q",), 2, idempotency_key="k"))
    assert {claimed.task_id for claimed in mine}.isdisjoint(item.task_id for item in yours)


async def test_a_raced_repeat_returns_the_same_leases(
    ledger: Ledger, database_url: str, world: World
) -> None:
    await world.submit(replicas=20)
    async with Database(database_url) as other:
        answers = await asyncio.gather(*(ask(mine, KEYED) for mine in [ledger, Ledger(other)] * 4))
    assert len({tuple(fence_of(mine) for mine in answer) for answer in answers}) == 1
    assert await world.count("leases") == 2


async def test_a_repeat_in_the_same_batch_returns_the_same_leases(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=4)
    first, again = await claim(ledger, [KEYED, KEYED])
    assert isinstance(first, list)
    assert isinstance(again, list)
    assert [fence_of(mine) for mine in again] == [fence_of(mine) for mine in first]
    assert await world.count("leases") == 2


async def test_a_repeat_by_id_in_the_same_batch_returns_the_same_lease(
    ledger: Ledger, world: World
) -> None:
    task_id = TaskId(await world.submit(), 0)
    request = ClaimRequest("w1", task_id=task_id, idempotency_key="k")
    first, again = await claim(ledger, [request, request])
    assert isinstance(first, list)
    assert isinstance(again, list)
    assert fence_of(again[0]) == fence_of(first[0])


async def test_stale_ready_rows_are_dropped_by_the_claim_that_meets_them(
    ledger: Ledger, world: World
) -> None:
    dead = await world.submit(inputs=list(range(5)), priority=5)
    await cancel_job(ledger, dead, "hard", actor="operator")
    live = await world.submit()
    assert await world.count("ready") == 6
    [mine] = await world.claim(1)
    assert mine.task_id.job_id == live
    assert await world.count("ready") == 0


async def test_a_claim_finds_the_one_live_task_behind_a_large_cancelled_job(
    ledger: Ledger, world: World
) -> None:
    dead = await world.submit(replicas=3_000, priority=5)
    await cancel_job(ledger, dead, "hard", actor="operator")
    live = await world.submit()
    assert [mine.task_id for mine in await world.claim(1)] == [TaskId(live, 0)]


async def test_tasks_of_a_flagged_job_are_not_handed_out(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=3)
    await cancel_job(ledger, job_id, "hard", actor="operator")
    assert await world.claim(3) == []


async def test_a_dead_lettered_task_is_not_handed_out(ledger: Ledger, world: World) -> None:
    job_id = await world.submit()
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="operator")
    assert await world.claim() == []


async def test_a_replaced_worker_cannot_claim(ledger: Ledger, world: World) -> None:
    task_id = TaskId(await world.submit(), 0)
    await _replace(ledger, "w1", "w2")
    with pytest.raises(LeaseConflict, match="replaced"):
        await world.claim(worker="w1")
    with pytest.raises(LeaseConflict, match="replaced"):
        await world.claim_by_id(task_id, worker="w1")
    [mine] = await world.claim(worker="w2")
    assert mine.task_id == task_id


async def test_a_replaced_worker_is_refused_alone(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=2)
    await _replace(ledger, "w1", "w2")
    refused, granted = await claim(ledger, [ClaimRequest("w1", ("q",)), ClaimRequest("w2", ("q",))])
    assert isinstance(refused, LeaseConflict)
    assert isinstance(granted, list)
    assert len(granted) == 1


async def test_placed_work_cannot_be_claimed_through_a_nameless_queue(
    ledger: Ledger, world: World
) -> None:
    await world.submit(queue=None)
    [answer] = await claim(ledger, [ClaimRequest("w1", ("",))])
    assert isinstance(answer, Invalid)
    assert answer.field == "queues"
    assert await world.count("leases") == 0


async def test_bad_requests_are_refused_alone(ledger: Ledger, world: World) -> None:
    await world.submit()
    before = await world.dump()
    answers = await claim(ledger, [request for _, request in BAD_REQUESTS])
    assert all(isinstance(answer, Invalid) for answer in answers)
    assert await world.dump() == before
    *_, granted = await claim(ledger, [BAD_REQUESTS[0][1], ClaimRequest("w1", ("q",))])
    assert isinstance(granted, list)
    assert len(granted) == 1


async def _replace(ledger: Ledger, old: str, new: str) -> None:
    await register(ledger, Registration(old, "w", "host"))
    await register(ledger, Registration(new, "w", "host", replaces=old))


async def test_while_vacuum_is_held_up_everything_is_claimed_once_and_nothing_is_passed_over(
    world: World, database: Database
) -> None:
    times = [0.0]
    world.ledger.positions = Positions(lambda: times[0])
    world.ledger.positions.note_held(True)
    await world.submit(inputs=list(range(20)))
    first = await world.claim(count=5)
    urgent = await world.submit(priority=5)
    rest = [*await world.claim(count=5), *await world.claim(count=20)]
    times[0] += 3600.0
    [found, *more] = await world.claim(count=5)
    assert found.task_id.job_id == urgent
    seen = [mine.task_id for mine in (*first, *rest, found, *more)]
    assert len(seen) == len(set(seen)) == 21
    assert await world.claim() == []
    await assert_audit_is_silent(database)


async def test_while_vacuum_is_held_up_several_queues_are_claimed_in_the_order_of_all(
    world: World,
) -> None:
    world.ledger.positions.note_held(True)
    late = await world.submit(queue="a")
    early = await world.submit(queue="b", priority=3)
    claims = await claim(world.ledger, [ClaimRequest("w", ("a", "b", "none"), 5)])
    assert isinstance(claims[0], list)
    assert {mine.task_id.job_id for mine in claims[0]} == {early, late}
