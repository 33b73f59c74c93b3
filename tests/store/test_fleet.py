"""What people read of workers, queues and dead letters, on a real ledger."""

from typing import Any

import pytest

from holdfast.errors import NotFound
from holdfast.model.ids import TaskId
from holdfast.model.resources import Capacity
from holdfast.operations.dead_letters import dead_letter_task, discard, replay
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.rules.health import DEAD_AFTER_FAILURES
from holdfast.store import fleet
from holdfast.store.database import Database
from holdfast.store.fleet import LetterFilter, QueueRow, WorkerLoad, WorkerRow
from tests.cluster import GB, Cluster
from tests.store.raw import Raw
from tests.world import World


async def workers_of(database: Database, page_size: int = 100) -> list[WorkerRow]:
    """List the workers, page by page."""
    found: list[WorkerRow] = []
    after = fleet.FIRST_WORKER
    for _ in range(100):
        async with database.snapshot() as tx:
            page = await fleet.list_workers(tx, after=after, page_size=page_size)
        found += page.rows
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def queues_of(database: Database) -> dict[str, QueueRow]:
    async with database.transaction() as tx:
        return (await fleet.list_queues(tx)).queues


async def letters_of(database: Database, page_size: int = 100, **wanted: Any) -> list[str]:
    """List the ids of dead letters, page by page."""
    found: list[str] = []
    after = fleet.FIRST_DEAD_LETTER
    for _ in range(100):
        async with database.transaction() as tx:
            page = await fleet.list_dead_letters(
                tx, LetterFilter(**wanted), after=after, page_size=page_size
            )
        found += [str(row.id) for row in page.rows]
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def bury(world: World, error_class: str = "PermanentError", **fields: Any) -> TaskId:
    """Submit a task and let it fail for good."""
    job_id = await world.submit([1], **fields)
    claim = await world.claim_by_id(TaskId(job_id, 0))
    await world.start(claim)
    await world.fail(claim, error_class)
    return claim.task_id


async def test_workers_are_listed_with_the_living_first(world: World, database: Database) -> None:
    for worker_id in ("d", "c", "b"):
        await register(world.ledger, Registration(worker_id, f"name of {worker_id}", "h", ("q",)))
    await world.clock.advance(31)
    await register(world.ledger, Registration("e", "e", "h", replaces="c"))
    await register(world.ledger, Registration("a", "a", "h", ("q", "r")))
    expected = [("a", "healthy"), ("e", "healthy"), ("b", "silent"), ("d", "silent"), ("c", "lost")]
    for page_size in (1, 2, 100):
        found = await workers_of(database, page_size)
        assert [(row.worker_id, fleet.HEALTH[row.illness]) for row in found] == expected
    assert found[0].queues == ["q", "r"]
    assert found[-1].replaced_by == "e"
    assert found[-1].lost_cause == "replaced by e"


async def test_a_worker_that_is_heard_of_is_healthy_again(
    world: World, lasting: Raw, database: Database
) -> None:
    await register(world.ledger, Registration("w1", "w", "h"))
    await world.clock.advance(31)
    assert [fleet.HEALTH[row.illness] for row in await workers_of(database)] == ["silent"]
    await lasting.run("update holdfast.workers set last_seen_at = holdfast.now()")
    assert [fleet.HEALTH[row.illness] for row in await workers_of(database)] == ["healthy"]
    async with database.transaction() as tx:
        found = await fleet.count_workers(tx)
    assert found == {"healthy": 1, "failing": 0, "silent": 0, "lost": 0}


async def test_a_called_worker_is_judged_by_its_failures_in_a_row(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add("a", "b", "c")
    await register(world.ledger, Registration("d", "d", "h", ("q",)))
    await world.clock.advance(31)
    await cluster.miss("b")
    for number in range(DEAD_AFTER_FAILURES):
        await cluster.miss("c", f"refused for the {number}. time")
    found = await workers_of(database)
    health = [(row.worker_id, fleet.HEALTH[row.illness]) for row in found]
    assert health == [("a", "healthy"), ("b", "failing"), ("d", "silent"), ("c", "lost")]
    assert [row.consecutive_failures for row in found] == [0, 1, 0, DEAD_AFTER_FAILURES]
    assert (found[1].last_failure, found[0].last_failure) == ("connection refused", None)
    assert (found[3].last_failure, found[3].address) == ("refused for the 2. time", "http://c:7000")
    async with database.transaction() as tx:
        assert await fleet.count_workers(tx) == dict.fromkeys(fleet.HEALTH, 1)
    await cluster.answer("b")
    assert [row.illness for row in await workers_of(database)] == [0, 0, 2, 3]


async def test_pages_of_workers_join_whatever_their_health(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add(*(f"w{number}" for number in range(6)))
    for worker_id in ("w1", "w4"):
        await cluster.miss(worker_id)
    for page_size in (1, 2, 4):
        found = await workers_of(database, page_size)
        assert [row.worker_id for row in found] == ["w0", "w2", "w3", "w5", "w1", "w4"]


async def test_what_is_booked_is_the_sum_over_unreleased_leases(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", gpu=4)
    await cluster.add("w2", cpu=0.5)
    small = await world.submit(replicas=2, queue=None, resources={"cpu": 0.5, "memory": "1GB"})
    large = await world.submit(queue=None, resources={"cpu": 2, "disk": "3GB", "gpu": 2})
    assert len(await cluster.place()) == 3
    await world.cancel_task(TaskId(small, 0))
    async with database.snapshot() as tx:
        loads = await fleet.read_loads(tx, world.ledger.specs, ["w1", "w2", "nobody"])
    total = [loads[name].used for name in ("w1", "w2")]
    assert sum(used.cpu for used in total) == 3.0
    assert sum(used.memory for used in total) == 2 * GB
    assert (loads["w1"].used.disk, loads["w1"].used.gpu) == (3 * GB, 2)
    held = loads["w1"].task_ids + loads["w2"].task_ids
    assert sorted(held) == [TaskId(small, 0), TaskId(small, 1), TaskId(large, 0)]
    assert loads["nobody"] == WorkerLoad([], Capacity())


async def test_of_many_tasks_on_a_worker_the_first_are_named(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("w1", "w", "h"))
    job_id = await world.submit([0] * (fleet.HELD_SHOWN_MAX + 5))
    await world.claim(fleet.HELD_SHOWN_MAX + 5, worker="w1")
    async with database.snapshot() as tx:
        loads = await fleet.read_loads(tx, world.ledger.specs, ["w1"])
    assert loads["w1"].task_ids == [TaskId(job_id, n) for n in range(fleet.HELD_SHOWN_MAX)]
    assert loads["w1"].used == Capacity()


async def test_a_worker_holds_what_it_has_not_released(world: World, database: Database) -> None:
    await register(world.ledger, Registration("w1", "w", "h"))
    await register(world.ledger, Registration("w2", "w", "h"))
    await world.submit([1, 2, 3])
    claims = await world.claim(2, worker="w1")
    await world.cancel_task(claims[0].task_id)
    async with database.snapshot() as tx:
        worker = await fleet.get_worker(tx, "w1")
        idle = await fleet.get_worker(tx, "w2")
        with pytest.raises(NotFound, match="there is no worker w3"):
            await fleet.get_worker(tx, "w3")
        assert await fleet.count_leases(tx) == (1, 1)
    assert (worker.leases, idle.leases) == (2, 0)


async def test_every_queue_that_has_anything_is_listed(world: World, database: Database) -> None:
    await world.submit([1, 2, 3], queue="deep", priority=1)
    await world.clock.advance(60)
    await world.submit([1], queue="deep", priority=7)
    await world.submit(queue="busy")
    [claim] = await world.claim(queue="busy")
    await world.submit(queue="later", not_before=32_000_000_000)
    await world.submit(queue="quick")
    [done] = await world.claim(queue="quick")
    await world.start(done)
    await world.succeed(done)
    await pause_queue(world.ledger, "paused", actor="operator")
    await world.submit(queue=None)
    async with database.transaction() as tx:
        view = await fleet.list_queues(tx)
    queues = view.queues
    assert sorted(queues) == ["busy", "deep", "later", "paused", "quick"]
    assert {name: row.depth for name, row in queues.items() if row.depth} == {"deep": 4}
    assert {name: row.waiting for name, row in queues.items() if row.waiting} == {"later": 1}
    assert {name: row.running for name, row in queues.items() if row.running} == {"busy": 1}
    assert {name: row.paused_by for name, row in queues.items() if row.paused_by} == {
        "paused": "operator"
    }
    oldest = queues["deep"].oldest_at
    assert oldest is not None
    assert (view.now - oldest).total_seconds() >= 60
    assert queues["quick"].finished_per_second > 0
    assert claim is not None


async def test_an_attempt_that_is_ending_does_not_run(world: World, database: Database) -> None:
    await world.submit([1, 2])
    claims = await world.claim(2)
    await world.cancel_task(claims[0].task_id)
    assert (await queues_of(database))["q"].running == 1


async def test_a_retried_failure_is_not_counted_as_finished(
    world: World, database: Database
) -> None:
    await world.submit(max_retries_failure=3, backoff={"base": 60})
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim)
    assert (await queues_of(database))["q"].finished_per_second == 0


async def test_the_pace_of_a_busy_queue_is_that_of_its_last_moments(
    world: World, lasting: Raw, database: Database
) -> None:
    """A minute holds more than is looked at, and an older job's event stands before all of it."""
    old, busy = await world.submit(queue="old"), await world.submit(queue="busy")
    many = """
        insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, txid)
        select $1::bigint, 0, 1000 + n, 0, 'succeeded',
               holdfast.now() - n * interval '1 minute' / 24000, 1
          from generate_series($2::int, 0, -1) as n
    """
    await lasting.run("set session_replication_role = replica")  # past the guards
    await lasting.run(many, old, 0)
    await lasting.run(many, busy, 24_000)
    pace = (await queues_of(database))["busy"].finished_per_second
    assert pace == pytest.approx(24_000 / 60, rel=0.5)


async def test_a_deep_queue_is_counted_by_a_sample(lasting: Raw, database: Database) -> None:
    for queue, count in (("deep", 60_000), ("shallow", 7), ("deeper", 90_000)):
        await lasting.run(
            "insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index)"
            " select $1, n % 3, now(), 1, n from generate_series(1, $2) as n",
            queue,
            count,
        )
    found = await queues_of(database)
    assert found["shallow"].depth == 7
    assert 30_000 < found["deep"].depth < 120_000
    assert 45_000 < found["deeper"].depth < 180_000


async def test_a_queue_of_some_thousands_is_counted_exactly(
    lasting: Raw, database: Database
) -> None:
    await lasting.run(
        "insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index)"
        " select 'q', 0, now(), 1, n from generate_series(1, 3456) as n"
    )
    assert (await queues_of(database))["q"].depth == 3456


async def test_dead_letters_are_listed_by_id_and_by_what_they_say(
    world: World, database: Database
) -> None:
    first = await bury(world, type="mail")
    second = await bury(world, "ValidationError", queue="other")
    third = await bury(world, type="mail")
    for page_size in (1, 100):
        assert await letters_of(database, page_size) == [str(first), str(second), str(third)]
    assert await letters_of(database, reason_code="validation_failed") == [str(second)]
    assert await letters_of(database, stage="exec", type="mail") == [str(first), str(third)]
    assert await letters_of(database, queue="other") == [str(second)]
    assert await letters_of(database, job_id=second.job_id) == [str(second)]
    assert await letters_of(database, job_id=999) == []


async def test_settled_dead_letters_are_listed_when_asked_for(
    world: World, database: Database
) -> None:
    letters = [await bury(world) for _ in range(3)]
    [replayed] = await replay(world.ledger, [letters[0]], actor="operator")
    await discard(world.ledger, [letters[1]], actor="operator")
    assert await letters_of(database) == [str(letters[2])]
    assert await letters_of(database, with_settled=True) == [str(letter) for letter in letters]
    async with database.transaction() as tx:
        rows = [await fleet.get_dead_letter(tx, letter) for letter in letters]
    assert [row.replayed_as for row in rows] == [replayed.job_id, None, None]
    assert [row.discarded_by for row in rows] == [None, "operator", None]


async def test_a_dead_letter_says_what_became_of_its_task(world: World, database: Database) -> None:
    job_id = await world.submit([{"a": 1}])
    await dead_letter_task(world.ledger, TaskId(job_id, 0), actor="operator")
    async with database.transaction() as tx:
        row = await fleet.get_dead_letter(tx, TaskId(job_id, 0))
        with pytest.raises(NotFound, match=f"there is no dead letter {job_id}.1"):
            await fleet.get_dead_letter(tx, TaskId(job_id, 1))
    assert (row.reason_code, row.attempts, row.input) == ("policy_violation", 0, '{"a":1}')
