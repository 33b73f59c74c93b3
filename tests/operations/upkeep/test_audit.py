"""The audit is silent on every healthy ledger, whatever was done to it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.operations.register import Registration, register
from holdfast.operations.submitting.replay import replay
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.audit import Finding, audit
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.rules.submitting.submission import parse_spec
from tests.world import World, fence_of

LARGE = list(range(25_000))


async def findings(world: World) -> list[Finding]:
    """List what an audit has to say."""
    return [finding async for finding in audit(world.ledger.database)]


async def be_sound(world: World) -> None:
    """Insist that an audit has nothing to say."""
    assert await findings(world) == []


async def claim_of(world: World, job_id: int, index: int = 0, worker: str = "w1") -> Claim:
    """Claim one task and start it, with an audit in between."""
    claimed = await world.claim_by_id(TaskId(job_id, index), worker)
    await be_sound(world)
    await world.start(claimed)
    return claimed


async def successes(world: World) -> None:
    job_id = await world.submit([1, 2, 3], priority=5)
    await be_sound(world)
    first, second, third = await world.claim(3)
    await world.report(first, TaskState.BUILDING)
    await be_sound(world)
    await world.succeed(first, "1")
    await world.start(second)
    await world.succeed(second)
    await be_sound(world)
    await world.succeed(third)
    assert await world.job_state(job_id) == TaskState.SUCCEEDED


async def retries_until_a_success(world: World) -> None:
    job_id = await world.submit(max_retries_failure=2, backoff={"base": 1.0})
    for _ in range(2):
        await world.fail(await claim_of(world, job_id))
        await be_sound(world)
        await world.pass_time(5)
        await be_sound(world)
    await world.succeed(await claim_of(world, job_id))


async def exhaustion_fails_or_dead_letters(world: World) -> None:
    for on_exhausted in ("fail", "dead_letter"):
        job_id = await world.submit([1, 2], max_retries_failure=1, on_exhausted=on_exhausted)
        for _ in range(2):
            await world.fail(await claim_of(world, job_id))
            await world.pass_time(5)
            await be_sound(world)
        await world.fail(await claim_of(world, job_id, 1), "PermanentError")


async def an_early_end_with_late_outcomes(world: World) -> None:
    job_id = await world.submit(replicas=5, on_exhausted="dead_letter")
    dead, failed, good, running = [await claim_of(world, job_id, index) for index in range(4)]
    await world.fail(dead)
    assert await world.job_state(job_id) == TaskState.DEAD_LETTERED
    await be_sound(world)
    await world.fail(failed)
    await world.succeed(good)
    await be_sound(world)
    await follow_up_all(world.ledger)
    await be_sound(world)
    assert not (await world.complete(running, "killed")).accepted


async def scheduling_timeouts(world: World) -> None:
    await world.submit([1, 2], scheduling_timeout=3.0)
    placed = await world.submit(queue=None, replicas=2, scheduling_timeout=3.0)
    await be_sound(world)
    await world.pass_time(5)
    assert await world.job_state(placed) == TaskState.UNSCHEDULABLE


async def run_timeouts(world: World) -> None:
    for on_timeout in ("kill", "fail"):
        job_id = await world.submit(
            [1, 2],
            timeout=8.0,
            on_timeout=on_timeout,
            max_retries_failure=1,
            scheduling_timeout=99.0,
        )
        claimed = await claim_of(world, job_id)
        await world.report(await world.claim_by_id(TaskId(job_id, 1)), TaskState.BUILDING)
        await be_sound(world)
        await world.clock.advance(9)
        await reap(world.ledger)
        await be_sound(world)  # the leases are ending, and a retry waits for its release
        await world.complete(claimed, "killed")
        await be_sound(world)
        await world.pass_time(40)
        await be_sound(world)
        await world.cancel_job(job_id)


async def expiries_charged_and_free(world: World) -> None:
    job_id = await world.submit(max_retries_preemption=1)
    for _ in range(2):
        await claim_of(world, job_id)
        await world.pass_time(40)
        await be_sound(world)
    job_id = await world.submit()
    await claim_of(world, job_id)
    await world.clock.advance(300)
    await world.pass_time(40)
    assert (await world.task(TaskId(job_id, 0))).preemption_count == 0


async def hand_backs_and_worker_failures(world: World) -> None:
    job_id = await world.submit()
    await world.complete(await claim_of(world, job_id), "handed_back")
    await be_sound(world)
    await world.complete(await claim_of(world, job_id), "worker_failed", error="disk full")
    await be_sound(world)
    await world.complete(await claim_of(world, job_id), "killed")


async def replaced_incarnations(world: World) -> None:
    job_id = await world.submit([1, 2, 3])
    old, new = f"old-{job_id}", f"new-{job_id}"
    await register(world.ledger, Registration(old, "w", "host"))
    await claim_of(world, job_id, 0, old)
    claimed = await claim_of(world, job_id, 1, old)
    await world.cancel_task(claimed.task_id)
    await be_sound(world)
    assert (
        await register(world.ledger, Registration(new, "w", "host", replaces=old))
    ).taken_over == 2


async def soft_cancels(world: World) -> None:
    job_id = await world.submit([1, 2, 3, 4], max_retries_failure=3, grace=7.0)
    stays, fails, wins = [await claim_of(world, job_id, index) for index in range(3)]
    await cancel_job(world.ledger, job_id, "soft", actor="operator")
    await be_sound(world)
    await follow_up_all(world.ledger)
    await be_sound(world)
    await world.fail(fails)
    await world.succeed(wins)
    await be_sound(world)
    await world.pass_time(10)
    await be_sound(world)
    assert not (await world.complete(stays, "succeeded")).accepted


async def hard_cancels(world: World) -> None:
    job_id = await world.submit([1, 2, 3], max_task_failures=2)
    await world.cancel_task(TaskId(job_id, 2))
    await be_sound(world)
    claimed = await claim_of(world, job_id)
    await cancel_job(world.ledger, job_id, "soft", actor="operator")
    await follow_up_all(world.ledger)
    await cancel_job(world.ledger, job_id, "hard", actor="operator")
    await be_sound(world)  # by its counts alone the job would have ended now
    await follow_up_all(world.ledger)
    await be_sound(world)
    await world.complete(claimed, "failed", error="late")


async def cancels_of_single_tasks(world: World) -> None:
    job_id = await world.submit([1, 2, 3], timeout=50.0)
    for index, mode in enumerate(("soft", "hard")):
        claimed = await claim_of(world, job_id, index)
        await world.cancel_task(claimed.task_id, mode)
        await be_sound(world)
        await world.complete(claimed, "killed")
        await be_sound(world)
    await world.cancel_task(TaskId(job_id, 2), "soft")


async def dead_letters_of_an_operator(world: World) -> None:
    job_id = await world.submit([1, 2, 3])
    claimed = await claim_of(world, job_id, 1)
    dead = [TaskId(job_id, 0), TaskId(job_id, 1)]
    for task_id in dead:
        await dead_letter_task(world.ledger, task_id, actor="operator")
        await be_sound(world)
    await replay(world.ledger, dead[:1], actor="operator")
    await discard(world.ledger, dead[1:], actor="operator")
    await be_sound(world)
    await world.pass_time(35)
    await be_sound(world)
    await world.succeed(await claim_of(world, job_id, 2))
    await be_sound(world)
    await replay(world.ledger, [await one_dead_letter(world)], actor="operator")
    assert claimed.attempt == 0


async def one_dead_letter(world: World) -> TaskId:
    """Let one task of a job with replicas die."""
    job_id = await world.submit(replicas=2)
    await world.fail(await claim_of(world, job_id))
    await follow_up_all(world.ledger)
    return TaskId(job_id, 0)


async def paused_queues(world: World) -> None:
    await world.submit([1], queue="slow")
    await pause_queue(world.ledger, "slow", actor="operator")
    assert await world.claim(queue="slow") == []
    await be_sound(world)
    await resume_queue(world.ledger, "slow", actor="ann")
    await world.claim(queue="slow")


async def children_of_an_ended_job(world: World) -> None:
    parent = await world.submit()
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"})
    child = await submit_one(world.ledger, Submission(spec, parent_job_id=parent))
    await claim_of(world, child.job_id)
    await world.fail(await claim_of(world, parent))
    await be_sound(world)
    while await follow_up(world.ledger):
        await be_sound(world)
    assert await world.job_state(child.job_id) == TaskState.KILLED


async def delayed_work(world: World) -> None:
    [[now]] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    job_id = await world.submit([1, 2], not_before=now + 20)
    await be_sound(world)
    await world.cancel_task(TaskId(job_id, 1))
    await world.pass_time(25)
    await be_sound(world)
    await world.succeed(await claim_of(world, job_id))


async def large_jobs(world: World) -> None:
    """Audit a job of 25,000 tasks before, while and after it is fed, cancelled and swept."""
    for mode in ("soft", "hard"):
        job_id = await world.submit(LARGE, queue="large", max_retries_failure=1)
        await be_sound(world)
        await follow_up(world.ledger)
        await be_sound(world)
        await dead_letter_task(world.ledger, TaskId(job_id, 24_000), actor="operator")
        if mode == "soft":
            await follow_up_all(world.ledger)
            await be_sound(world)
        claimed = [await world.claim_by_id(TaskId(job_id, index)) for index in range(3)]
        await world.fail(claimed[0])
        await cancel_job(world.ledger, job_id, mode, actor="operator")
        await be_sound(world)
        await follow_up(world.ledger)
        await be_sound(world)
        await world.succeed(claimed[1])
        await follow_up_all(world.ledger)
        await be_sound(world)
    await world.pass_time(60)
    await world.claim(100, queue="large")


STEPS: list[Callable[[World], Awaitable[None]]] = [
    successes,
    retries_until_a_success,
    exhaustion_fails_or_dead_letters,
    an_early_end_with_late_outcomes,
    scheduling_timeouts,
    run_timeouts,
    expiries_charged_and_free,
    hand_backs_and_worker_failures,
    replaced_incarnations,
    soft_cancels,
    hard_cancels,
    cancels_of_single_tasks,
    dead_letters_of_an_operator,
    paused_queues,
    children_of_an_ended_job,
    delayed_work,
]


async def test_an_empty_ledger_is_sound(world: World) -> None:
    await be_sound(world)


@pytest.mark.parametrize("step", [*STEPS, pytest.param(large_jobs, marks=pytest.mark.nightly)])
async def test_a_step_leaves_the_ledger_sound(
    world: World, step: Callable[[World], Awaitable[None]]
) -> None:
    await step(world)
    await be_sound(world)


async def test_a_long_mixed_life_leaves_the_ledger_sound(world: World) -> None:
    for step in STEPS:
        await step(world)
        await world.pass_time(10)
        await be_sound(world)


async def test_a_job_that_still_arrives_is_sound(world: World) -> None:
    await world.submit([1])
    await world.clock.fetch(
        """insert into holdfast.jobs (job_id, name, type, owner, queue, priority, spec,
               correlation_id, created_at, fan_out, num_tasks, pending)
           select 2, name, type, owner, queue, priority, spec, correlation_id,
                  created_at, fan_out, 3, 3 from holdfast.jobs"""
    )
    await world.clock.fetch(
        """insert into holdfast.tasks
               (job_id, task_index, placed, eligible_at, submitted_at, moved_at)
           select 2, 0, placed, eligible_at, submitted_at, moved_at from holdfast.tasks"""
    )
    await be_sound(world)


async def test_retention_leaves_the_ledger_sound(world: World) -> None:
    await successes(world)
    await world.clock.fetch("select setval('holdfast.job_ids', 10001)")
    live = await world.submit([1, 2])
    await world.clock.advance(31 * 86_400)
    assert await prune(world.ledger, Retention()) == 1
    assert [row[0] for row in await world.clock.fetch("select job_id from holdfast.jobs")] == [live]
    await be_sound(world)


async def test_an_audit_under_load_sees_one_moment(world: World) -> None:
    await world.submit(list(range(300)), max_retries_failure=1)
    answers = await asyncio.gather(
        *(work_through(world, f"w{number}") for number in range(3)),
        *(findings(world) for _ in range(5)),
    )
    assert answers[3:] == [[]] * 5
    await be_sound(world)


async def work_through(world: World, worker: str) -> list[Finding]:
    """Claim and complete tasks, every third with a failure, until none is left."""
    while True:
        [claims] = await claim(world.ledger, [ClaimRequest(worker, ("q",), 7)])
        assert isinstance(claims, list)
        if not claims:
            return []
        await complete(
            world.ledger,
            [
                Completion(fence_of(claimed), "failed", error="boom")
                if claimed.task_id.task_index % 3 == 0
                else Completion(fence_of(claimed), "succeeded")
                for claimed in claims
            ],
        )


async def test_a_reader_who_leaves_early_leaves_nothing_behind(world: World) -> None:
    await world.submit([1, 2, 3])
    await world.clock.fetch("set session_replication_role = replica")
    await world.clock.fetch("delete from holdfast.ready")
    reader = audit(world.ledger.database)
    first = await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]
    assert first.invariant == "pending_task_not_in_line"
    open_snapshots = await world.clock.fetch(
        "select from pg_stat_activity where state = 'idle in transaction'"
    )
    assert open_snapshots == []
