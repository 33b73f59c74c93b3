"""The overview is read once, however many look, and again after a moment."""

import asyncio

import pytest

from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import Status
from holdfast.model.workers.resources import Capacity
from holdfast.operations.dead_letters import discard
from holdfast.operations.ending.complete import Completion
from holdfast.operations.register import Registration, drain, register
from holdfast.operations.submitting.replay import replay
from holdfast.rules.placement.impossible import Impossible
from holdfast.rules.reading.attention import ATTENTION_MAX, Attention
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.services.measuring.overview import Overviews, read_attention
from holdfast.services.reasons import Reasons
from holdfast.services.runtime import Runtime
from holdfast.store.database import Database
from holdfast.store.reads.limits import queues
from tests.cluster import Cluster
from tests.world import World, fence_of

SPEC = {"entrypoint": {"function": "app:work"}, "queue": "q", "max_attempts": 1}


@pytest.fixture
def reasons(world: World, database: Database) -> Reasons:
    """Look again each time."""
    return Reasons(world.ledger, database, fresh_seconds=0.0)


async def attention(database: Database, reasons: Reasons) -> list[Attention]:
    """Find out what somebody should look at."""
    return (await read_attention(database, reasons.list_impossible)).attention


async def test_many_who_look_at_once_cost_one_read(
    world: World, database: Database, reasons: Reasons
) -> None:
    overviews = Overviews(database, reasons.list_impossible, fresh_seconds=600)
    seen = await asyncio.gather(*(overviews.read(3600) for _ in range(20)))
    await world.submit()
    seen.append(await overviews.read(3600))
    assert len({id(chart) for chart, _ in seen}) == 1
    assert len({id(findings) for _, findings in seen}) == 1
    other, _ = await overviews.read(7200)
    assert (other.step_seconds, other.live.ready) == (60, 1), "another window is read by itself"


async def test_what_is_old_is_read_again(
    world: World, database: Database, reasons: Reasons
) -> None:
    overviews = Overviews(
        database, reasons.list_impossible, fresh_seconds=0, attention_fresh_seconds=0
    )
    chart, findings = await overviews.read(3600)
    assert (chart.live.ready, findings.attention) == (0, [])
    await world.submit()
    await world.clock.advance(61)
    chart, findings = await overviews.read(3600)
    assert (chart.live.ready, len(findings.attention)) == (1, 1)


async def test_a_queue_that_does_not_drain_is_told(
    world: World, database: Database, reasons: Reasons
) -> None:
    await world.watch()
    await world.submit([1, 2, 3])
    await world.clock.advance(61)
    [found] = await attention(database, reasons)
    assert (found.kind, found.severity, found.subject) == ("queue_stalled", "critical", "q")
    assert found.message.startswith("no worker serves it; 3 tasks in line")
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    [found] = await attention(database, reasons)
    assert found.message.startswith("nothing runs or finishes; 3 tasks in line")
    [first] = await world.claim()
    [found] = await attention(database, reasons)
    assert (found.severity, found.count) == ("warning", 2)
    assert found.message.startswith("nothing finished in the last minute")
    await world.start(first)
    await world.succeed(first)
    assert await attention(database, reasons) == []


async def test_what_is_too_much_to_look_at_is_not_called_stalled(
    world: World, database: Database, reasons: Reasons, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit()
    await world.clock.advance(61)
    await register(world.ledger, Registration("w1", "w", "h", ("q", "busy")))
    assert len(await attention(database, reasons)) == 1
    for _ in range(2):
        await world.submit(queue="busy")
    monkeypatch.setattr(queues, "EVENTS_LOOKED_AT_MAX", 2)
    assert await attention(database, reasons) == []


async def test_a_worker_that_is_missed_is_told(
    world: World, database: Database, reasons: Reasons
) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    await world.submit()
    await world.claim(worker="w1")
    await world.clock.advance(31)
    [found] = await attention(database, reasons)
    assert (found.kind, found.subject) == ("worker_lost", "w1")
    assert found.message == "silent, and holds 1 attempt"


async def test_an_unserved_queue_is_called_so_while_what_was_claimed_from_it_runs(
    world: World, database: Database, reasons: Reasons
) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    await world.submit([1, 2, 3])
    [_, done] = await world.claim(2, worker="w1")
    await drain(world.ledger, "w1", actor="eve")
    await world.clock.advance(61)
    await world.succeed(done)
    found = await attention(database, reasons)
    [queue] = [one for one in found if one.kind == "queue_stalled"]
    assert queue.severity == "critical"
    assert queue.message.startswith("no worker serves it; 1 task in line")
    assert queue.message.endswith("; 1 attempt left running")


async def test_cancelled_tasks_of_an_unserved_queue_need_no_attention(
    world: World, database: Database, reasons: Reasons
) -> None:
    job_id = await world.submit(replicas=5)
    await world.clock.advance(61)
    assert len(await attention(database, reasons)) == 1
    await world.cancel_job(job_id)
    assert await attention(database, reasons) == []


async def test_placed_work_that_could_never_fit_is_told_with_its_jobs(
    world: World, database: Database, reasons: Reasons
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", gpu=4)
    jobs = [await world.submit(queue=None, replicas=300, resources={"gpu": 8}) for _ in range(2)]
    last = await world.submit(queue=None, resources={"gpu": 4})
    findings = await read_attention(database, reasons.list_impossible)
    assert (findings.attention, findings.never_fits) == ([], 600), "it may be about to come"
    await world.clock.advance(61)
    findings = await read_attention(database, reasons.list_impossible)
    [found] = [one for one in findings.attention if one.kind == "never_fits"]
    assert (found.subject, found.count) == ("1 cpu, 8 gpu", 600)
    assert found.job_ids == tuple(map(str, jobs))
    assert "could never fit (the largest has 4 gpu)" in found.message

    async def list_many() -> list[Impossible]:
        return [Impossible(f"{n} gpu", "none", 0.0, (last,)) for n in range(ATTENTION_MAX + 9)]

    assert (await read_attention(database, list_many)).never_fits == ATTENTION_MAX
    few = Reasons(world.ledger, database, fresh_seconds=0.0, jobs_max=1)
    [only] = await few.list_impossible()
    assert only.job_ids == (jobs[0],), "of very many, the first are looked at"


async def test_queue_work_that_no_worker_could_take_is_told_and_not_called_stalled(
    world: World, database: Database, reasons: Reasons
) -> None:
    jobs = [await world.submit([1, 2], resources={"cpu": 8}) for _ in range(2)]
    await world.clock.advance(61)
    small = Registration("w1", "w", "h", ("q",), claims_up_to=Capacity(2))
    await register(world.ledger, small)
    findings = await read_attention(database, reasons.list_impossible)
    [found] = findings.attention
    assert (found.kind, found.subject, found.count) == ("never_fits", "8 cpu in queue q", 4)
    assert (findings.never_fits, found.job_ids) == (4, tuple(map(str, jobs)))
    assert "could never fit (the largest has 2 cpu), the oldest waits for 61 s" in found.message
    await register(world.ledger, Registration("w2", "w", "h", ("q",), claims_up_to=Capacity(8)))
    findings = await read_attention(database, reasons.list_impossible)
    assert (findings.never_fits, [one.kind for one in findings.attention]) == (0, ["queue_stalled"])


async def test_a_worker_that_fails_what_others_do_is_told_until_it_is_drained(
    quiet: Runtime, world: World, database: Database, reasons: Reasons
) -> None:
    ends: list[tuple[str, Status]] = [("good", "succeeded"), ("bad", "failed"), ("gone", "failed")]
    for worker_id, status in ends:
        await register(world.ledger, Registration(worker_id, worker_id, "h", ("q",)))
        await quiet.writers.submit(Submission(parse_spec(SPEC), parse_inputs([1, 2, 3, 4, 5])))
        claims = await world.claim(5, worker_id)
        await quiet.writers.complete([Completion(fence_of(each), status) for each in claims])
    await quiet.samples.write()
    # Another has taken its place, so that it is lost.
    await register(world.ledger, Registration("next", "gone", "h", ("q",), replaces="gone"))
    [one] = [one for one in await attention(database, reasons) if one.kind == "worker_failing"]
    assert (one.subject, one.severity, one.count) == ("bad", "critical", 5)
    assert one.message == (
        "5 of 5 attempts failed there within the last hour; of those on other workers, 0%"
    )
    assert await drain(world.ledger, "bad", actor="eve")
    assert "worker_failing" not in {one.kind for one in await attention(database, reasons)}


async def test_jobs_that_failed_are_told_until_all_of_them_are_settled(
    quiet: Runtime, world: World, database: Database, reasons: Reasons
) -> None:
    await register(world.ledger, Registration("w", "w", "h", ("q",)))
    for _ in range(6):
        await quiet.writers.submit(Submission(parse_spec(SPEC), None))

    async def end(count: int, status: Status) -> None:
        claims = await world.claim(count, "w")
        ends = [Completion(fence_of(each), status, error=f"row {each}") for each in claims]
        await quiet.writers.complete(ends)
        await quiet.samples.write()

    async def told() -> list[str]:
        kinds = {one.kind for one in await attention(database, reasons)}
        return sorted(kinds & {"failing_jobs", "failing_type"})

    await end(6, "failed")
    assert await told() == ["failing_jobs"]
    letters = [TaskId(each.job_id, each.task_index) for each in await world.dead_letters()]
    await discard(world.ledger, letters[:1], actor="eve")
    await replay(world.ledger, letters[1:], actor="eve")
    await end(4, "succeeded")
    assert await told() == ["failing_jobs"], "one of the replays is not done yet"
    await end(1, "succeeded")
    assert await told() == []
