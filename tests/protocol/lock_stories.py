"""Each operation that locks more than one row, in a world where it finds all of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from holdfast.model.limits.shares import ShareRule
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.claiming import claim as claiming
from holdfast.operations.claiming.complete_and_claim import Turn, complete_and_claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.ending.dependents import let_pass
from holdfast.operations.ending.lost_workers import lose_worker
from holdfast.operations.ending.reap import reap
from holdfast.operations.endpoints import register_endpoint
from holdfast.operations.follow_up import follow_up
from holdfast.operations.placed.gangs import keep_limits_for
from holdfast.operations.placed.undelivered import Undelivered, end_undelivered
from holdfast.operations.placed.worker_heartbeats import (
    Failure,
    Heard,
    count_failures,
    store_answers,
)
from holdfast.operations.register import Registration, register
from holdfast.operations.renew import renew
from holdfast.operations.schedules.fire import fire_due
from holdfast.operations.sharing.lines import sort_shares
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.operations.signals import send_signal, wait_for_signal
from holdfast.operations.submitting.replay import replay
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.resume import resume
from holdfast.operations.submitting.submit import submit
from holdfast.operations.upkeep.expire import expire
from holdfast.operations.upkeep.requeue import give_up_scheduling, requeue_due
from holdfast.operations.usage_limits.delete import delete_limit
from holdfast.operations.usage_limits.put import put_limit
from holdfast.operations.usage_limits.tend import Cancelled, Clocks
from holdfast.rules.submitting.submission import parse_spec
from tests.datasets import Library, an_entry
from tests.operations.broken_graphs import broken_graph
from tests.operations.letters import dead_inputs, found
from tests.placed_world import PlacedWorld
from tests.stand_in import StandIn
from tests.timetable import Timetable
from tests.world import World, fence_of

Step = tuple[str, Callable[[], Awaitable[object]]]
ONE = UsageLimit(scope="queue", kind="concurrency", most=1)
TWO = UsageLimit(scope="queue", kind="concurrency", most=2)


def _ends(claims: list[Any], status: Any) -> list[Completion]:
    """Report the same end of several, the last one first."""
    return [Completion(fence_of(claim), status, error="boom") for claim in reversed(claims)]


async def queue_work(world: World) -> AsyncIterator[Step]:
    """Jobs of three tasks, of which some run."""
    ledger = world.ledger
    jobs = [await world.submit([1, 2, 3], max_retries_failure=1) for _ in range(2)]
    claims = await world.claim(4)
    yield "submit", lambda: world.submit([1, 2])
    yield "claim", lambda: world.claim(2)
    yield "claim_by_id", lambda: world.claim_by_id(TaskId(jobs[1], 2))
    yield "report", lambda: world.start(claims[0])
    for claim in claims:
        await world.start(claim)
    plain = Completion(fence_of(claims[0]), "succeeded")
    asked = ClaimRequest("w1", ("q",), 1, start=True)
    yield "turn", lambda: complete_and_claim(ledger, [Turn((plain,), asked)])
    failed = _ends(claims[:1], "failed")[0]
    yield "turn_with_failure", lambda: complete_and_claim(ledger, [Turn((failed,), asked)])
    yield "renew", lambda: renew(ledger, [fence_of(claim) for claim in reversed(claims)])
    yield "complete", lambda: complete(ledger, _ends(claims, "succeeded"))
    yield "complete_failed", lambda: complete(ledger, _ends(claims, "failed"))
    yield "cancel_job", lambda: cancel_job(ledger, jobs[0], "hard", actor="ann")
    yield "cancel_task", lambda: cancel_task(ledger, claims[0].task_id, "hard", actor="ann")
    yield (
        "cancel_pending_task",
        lambda: cancel_task(ledger, TaskId(jobs[1], 2), "hard", actor="ann"),
    )
    yield "dead_letter", lambda: dead_letter_task(ledger, claims[0].task_id, actor="ann")
    await register(ledger, Registration("w1", "w1", "host"))
    yield "register", lambda: register(ledger, Registration("w2", "w1", "host", replaces="w1"))
    await complete(ledger, _ends(claims[:2], "failed"))
    await cancel_job(ledger, jobs[1], "hard", actor="ann")
    yield "follow_up", lambda: follow_up(ledger)
    await world.clock.advance(5)
    await world.watch()
    yield "requeue", lambda: requeue_due(ledger)
    query = (
        "select extract(epoch from min(expires_at) - holdfast.now())::float8 from holdfast.leases"
    )
    [row] = await world.clock.fetch(query)
    await world.pass_time(row[0] - 1)
    await world.clock.advance(2)
    yield "reap", lambda: reap(ledger)


async def late_work(world: World) -> AsyncIterator[Step]:
    """Tasks that have to start by some time."""
    ledger = world.ledger
    await world.submit([1, 2], expires=20.0)
    await world.submit([1, 2], scheduling_timeout=20.0)
    await world.pass_time(15)
    await world.clock.advance(10)
    yield "expire", lambda: expire(ledger)
    yield "give_up", lambda: give_up_scheduling(ledger)


async def sized_work(world: World) -> AsyncIterator[Step]:
    """Tasks that name resources: a claim looks before it takes."""
    await world.submit([1, 2, 3], resources={"cpu": 1})
    room = Capacity(cpu=2.0)
    asked = ClaimRequest("w1", ("q",), 3, free=room, capacity=room)
    yield "claim_sized", lambda: claiming.claim(world.ledger, [asked])


async def limited_work(world: World) -> AsyncIterator[Step]:
    """A queue of two slots, behind which some wait."""
    ledger = world.ledger
    await put_limit(ledger, "two", TWO, actor="ann")
    await put_limit(
        ledger, "owners", UsageLimit(scope="owner", kind="concurrency", most=1), actor="ann"
    )
    jobs = [await world.submit([1, 2], owner=owner) for owner in ("ann", "bob", "ann")]
    yield "claim_limited", lambda: world.claim(3)
    claims = await world.claim(3)
    await world.claim(3)
    for claim in claims:
        await world.start(claim)
    await world.submit([1], owner="bob")
    yield "complete_limited", lambda: complete(ledger, _ends(claims, "succeeded"))
    yield "fail_limited", lambda: complete(ledger, _ends(claims, "failed"))
    await world.succeed(claims[0])
    yield "claim_limited_again", lambda: world.claim(3)
    yield "put_limit", lambda: put_limit(ledger, "two", ONE, actor="ann")
    yield "delete_limit", lambda: delete_limit(ledger, "owners", actor="ann")
    yield "cancel_gated", lambda: cancel_task(ledger, TaskId(jobs[2], 1), "hard", actor="ann")


async def shared_work(world: World) -> AsyncIterator[Step]:
    """A queue that owners share."""
    ledger = world.ledger
    await world.submit([1, 2], owner="ann")
    yield "share", lambda: set_share_rule(ledger, "q", ShareRule(), actor="eve")
    await set_share_rule(ledger, "q", ShareRule(), actor="eve")
    yield "sort_shares", lambda: sort_shares(ledger)
    while await sort_shares(ledger):
        pass
    await world.submit([1, 2], owner="bob")
    yield "submit_shared", lambda: world.submit([1, 2], owner="ann")
    yield "claim_shared", lambda: world.claim(2)
    claims = await world.claim(2)
    for claim in claims:
        await world.start(claim)
    yield "complete_shared", lambda: complete(ledger, _ends(claims, "failed"))


async def ordered_work(world: World) -> AsyncIterator[Step]:
    """Jobs that wait for others, and undo them."""
    ledger = world.ledger
    first = await world.submit(compensation={"function": "app:undo"}, max_retries_failure=0)
    await world.submit([1, 2], depends_on=[str(first)])
    yield "submit_dependent", lambda: world.submit([1, 2], depends_on=[str(first)])
    done = await world.submit(queue="y")
    await world.succeed(await world.claim_by_id(TaskId(done, 0)))
    yield "submit_released", lambda: world.submit([1, 2], depends_on=[str(done)])
    yield "submit_child", lambda: world.submit_child(first)
    await world.submit(chain="c")
    yield "submit_chained", lambda: world.submit(chain="c")
    chained = '{"entrypoint": {"function": "app:work"}, "queue": "q", "chain": "c"}'
    query = "select holdfast.submit($1::jsonb)"
    yield "submit_chained_by_sql", lambda: world.clock.fetch(query, chained)
    failed = await world.submit(queue="w", chain="d", max_retries_failure=0)
    await world.submit([1, 2], queue="w", chain="d", on_failure="block")
    await world.complete(await world.claim_by_id(TaskId(failed, 0)), "failed")
    await world.run_chores()
    yield "let_pass", lambda: let_pass(ledger, failed, actor="ann", reason="seen to")
    await world.submit(unique={"values": [1]})
    claim = await world.claim_by_id(TaskId(first, 0))
    await world.start(claim)
    yield "complete_awaited", lambda: world.succeed(claim)
    await world.complete(claim, "failed", error_class="PermanentError")
    yield "follow_up_end", lambda: follow_up(ledger)
    third = await world.submit(queue="z")
    await world.submit([1, 2], depends_on=[str(third)])
    await world.succeed(await world.claim_by_id(TaskId(third, 0)))
    yield "release_dependents", lambda: follow_up(ledger)


async def undone_work(world: World) -> AsyncIterator[Step]:
    """A graph that breaks and is undone, and what is done about its dead letters."""
    ledger = world.ledger
    graph = await broken_graph(world)
    yield "resume", lambda: resume(ledger, graph[0], actor="ann")
    yield "rerun", lambda: rerun(ledger, graph[0], actor="ann")
    await dead_inputs(world, 2, 2)
    letters = await found(world)
    yield "discard", lambda: discard(ledger, letters[::-1], actor="ann")
    yield "replay", lambda: replay(ledger, letters[::-1], actor="ann")
    await world.submit(compensation={"function": "app:undo"}, on_exhausted="fail")
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    await follow_up(ledger)
    yield "compensate", lambda: follow_up(ledger)
    await follow_up(ledger)
    [undo] = await world.claim()
    await world.succeed(undo)
    yield "end_undo", lambda: follow_up(ledger)


async def signalled_work(world: World) -> AsyncIterator[Step]:
    """A task that waits for a signal, one that completes by SQL, and unique jobs that give way."""
    ledger = world.ledger
    job = await world.submit([1, 2])
    claims = await world.claim(2)
    for claim in claims:
        await world.start(claim)
    fence, other = map(fence_of, claims)
    yield "publish", lambda: register_endpoint(ledger, other, "db", address="host:1")
    query = "select holdfast.complete($1, $2, $3)"
    mine = (str(other.task_id), other.attempt, other.lease_token)
    yield "complete_by_sql", lambda: world.clock.fetch(query, *mine)
    asking: dict[str, Any] = {"name": "go", "number": 1, "timeout": None}
    yield "wait_for_signal", lambda: wait_for_signal(ledger, fence, **asking)
    await wait_for_signal(ledger, fence, **asking)
    parked = [Completion(fence, "waiting")]
    yield "park", lambda: complete(ledger, parked)
    await complete(ledger, parked)
    sent = {"name": "go", "payload": "1", "actor": "ann"}
    index = fence.task_id.task_index
    yield "send_signal", lambda: send_signal(ledger, job, index, **sent)
    by_sql = "select holdfast.signal($1, 'go', '1', $2)"
    yield "send_signal_by_sql", lambda: world.clock.fetch(by_sql, job, index)
    unique = {"values": [1], "on_conflict": "replace"}, {"values": [2], "on_conflict": "replace"}
    again = [_submission(unique=rule) for rule in unique]
    await submit(ledger, again)
    yield "replace_unique", lambda: submit(ledger, again)


def _submission(**fields: Any) -> Submission:
    entrypoint = {"function": "app:work"}
    return Submission(parse_spec({"entrypoint": entrypoint, "queue": "u"} | fields), None)


async def outputs(world: World) -> AsyncIterator[Step]:
    """Jobs that write datasets."""
    library = Library(world)
    await library.create(versions=2)
    await library.submit(version=1)
    [claim] = await world.claim()
    await world.start(claim)
    yield "submit_output", lambda: library.submit(version=2)
    yield "submit_output_anew", lambda: library.submit(version="new")
    yield "complete_output", lambda: library.commit(claim, an_entry("a"), an_entry("b"))
    await library.commit(claim, an_entry("a"))
    await world.run_chores()
    yield "cut_over", lambda: library.cut_over(1)
    yield "drop_version", lambda: library.drop(2)
    yield "open_version", library.open


async def schedules(world: World) -> AsyncIterator[Step]:
    """A schedule that is due."""
    timetable = Timetable(world)
    await timetable.set("a", cron="* * * * *")
    await timetable.set("b", cron="* * * * *")
    await world.clock.advance(120)
    yield "fire", lambda: fire_due(world.ledger)
    yield "set_schedule", lambda: timetable.set("a", cron="0 * * * *")


async def placed_work(cluster: PlacedWorld) -> AsyncIterator[Step]:
    """Tasks on workers that are called."""
    ledger = cluster.ledger
    await cluster.add("w1", "w2", gpu=2)
    jobs = [await cluster.submit(resources={"gpu": 1}) for _ in range(2)]
    gang = await cluster.submit(replicas=2, coscheduling={})
    term = await cluster.term()
    yield "place", lambda: cluster.scheduler.run(term)
    await cluster.place()
    fences = [await cluster.fence(TaskId(job, 0)) for job in jobs]
    rows = await cluster.clock.fetch("select job_id, worker_id from holdfast.leases")
    holders = [dict(rows)[job] for job in jobs]
    lost = [Undelivered(holders[0], fences[0])]
    yield "end_undelivered", lambda: end_undelivered(ledger, term, lost)
    heard = [Heard(worker, 99, _of(worker, fences, holders)) for worker in ("w2", "w1")]
    yield "store_answers", lambda: store_answers(ledger, term, heard)
    yield (
        "count_failures",
        lambda: count_failures(ledger, term, [Failure("w1", "x"), Failure("w2", "x")]),
    )
    await cluster.beat()
    member = await cluster.fence(TaskId(gang, 1))
    yield "fail_gang", lambda: complete(ledger, [Completion(member, "failed", error="boom")])
    for _ in range(3):
        await count_failures(ledger, term, [Failure("w1", "x")])
    yield "lose_worker", lambda: lose_worker(ledger, "w1", "silent")
    yield (
        "adopt",
        lambda: cluster.register(
            StandIn("w3"),
            replaces=holders[0],
            host=holders[0],
            adopts=_of(holders[0], fences, holders),
            gpu=2,
        ),
    )


async def limited_gangs(cluster: PlacedWorld) -> AsyncIterator[Step]:
    """A gang that lacks slots of two limits, and rates whose clock is put back."""
    ledger = cluster.ledger
    for scope in ("owner", "type"):
        slots = UsageLimit(scope=scope, kind="concurrency", most=2)
        rate = UsageLimit(scope=scope, kind="bucket", most=1, period=3600.0, burst=20.0)
        await put_limit(ledger, f"{scope}s", slots, actor="ann")
        await put_limit(ledger, f"{scope}-rate", rate, actor="ann")
    await cluster.add("w1", "w2")
    await cluster.submit()
    await cluster.place()
    gang = await cluster.submit(replicas=2, coscheduling={})
    yield "keep_for_gang", lambda: keep_limits_for(ledger, gang)
    gone = await cluster.submit([1, 2, 3])
    await cluster.place()
    await cluster.clock.advance(-60)
    yield "follow_clock", Clocks(ledger).look
    await cluster.clock.fetch(
        "update holdfast.jobs set cancel_mode = 'hard' where job_id = $1", gone
    )
    yield "clear_gated", Cancelled(ledger).clear


def _of(worker: str, fences: list[Fence], holders: list[str]) -> tuple[Fence, ...]:
    return tuple(f for f, holder in zip(fences, holders, strict=True) if holder == worker)
