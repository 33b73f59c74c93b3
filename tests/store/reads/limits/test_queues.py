"""Queues on a real ledger: what stands in line, how fast it goes, what is in the way."""

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, drain, register
from holdfast.store.database import Database
from holdfast.store.reads.limits import queues
from holdfast.store.reads.limits.queues import QueueRow
from holdfast.store.reads.work import tasks
from tests.cluster import Cluster
from tests.store.raw import Raw
from tests.world import World


async def queues_of(database: Database) -> dict[str, QueueRow]:
    async with database.transaction() as tx:
        return (await queues.list_queues(tx)).queues


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
        view = await queues.list_queues(tx)
    found = view.queues
    assert sorted(found) == ["busy", "deep", "later", "paused", "quick"]
    assert {name: row.depth for name, row in found.items() if row.depth} == {"deep": 4}
    assert {name: row.waiting for name, row in found.items() if row.waiting} == {"later": 1}
    assert {name: row.running for name, row in found.items() if row.running} == {"busy": 1}
    assert {name: row.paused_by for name, row in found.items() if row.paused_by} == {
        "paused": "operator"
    }
    oldest = found["deep"].oldest_at
    assert oldest is not None
    assert (view.now - oldest).total_seconds() >= 60
    assert found["quick"].finished_per_second > 0
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


async def test_what_is_due_last_is_counted_however_much_is_due_before(
    world: World, database: Database
) -> None:
    await world.submit(list(range(1200)), queue=None, not_before=31_000_000_000)
    await world.submit(list(range(1100)), queue="soon", not_before=32_000_000_000)
    await world.submit([1, 2, 3], queue="late", not_before=33_000_000_000)
    found = await queues_of(database)
    assert {name: row.waiting for name, row in found.items()} == {"soon": 1100, "late": 3}


async def test_a_line_tells_whether_it_is_paused_and_served(
    world: World, database: Database
) -> None:
    async with database.transaction() as tx:
        before = await queues.read_condition(tx, "q")
    assert (before.paused_by, before.is_served) == (None, False)
    await register(world.ledger, Registration("w1", "w", "h", ("other", "q")))
    await pause_queue(world.ledger, "q", actor="operator")
    async with database.transaction() as tx:
        after = await queues.read_condition(tx, "q")
    assert (after.paused_by, after.is_served) == ("operator", True)
    await world.clock.advance(31)
    async with database.transaction() as tx:
        assert not (await queues.read_condition(tx, "q")).is_served


async def test_the_workers_of_a_queue_are_counted_with_and_without_one(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("w1", "one", "h", ("q",)))
    await register(world.ledger, Registration("w2", "two", "h", ("q", "other")))
    await register(world.ledger, Registration("w3", "three", "h", ("other",)))
    async with database.transaction() as tx:
        assert await queues.count_serving(tx, "q", "one") == (1, 1)
        assert await queues.count_serving(tx, "q", "w2") == (1, 1)
        assert await queues.count_serving(tx, "q", "three") == (0, 2)
    await world.clock.advance(31)
    async with database.transaction() as tx:
        assert await queues.count_serving(tx, "q", "one") == (0, 0)


async def test_a_job_that_stands_in_line_in_part_tells_how_far(
    world: World, database: Database
) -> None:
    job_id, whole = await world.submit([1, 2], start_rate=0.01), await world.submit()
    await world.run_chores()
    async with database.transaction() as tx:
        feeding = await queues.find_feeding(tx, job_id)
        assert feeding is not None
        assert (feeding.next_index, feeding.due_at > await tx.now()) == (1, True)
        assert await queues.find_feeding(tx, whole) is None


async def test_those_ahead_are_the_more_urgent_and_the_older(
    world: World, database: Database
) -> None:
    first = await world.submit([1, 2, 3])
    urgent = await world.submit(priority=9)
    await world.submit(queue="elsewhere", priority=99)
    last = await world.submit()
    async with database.transaction() as tx:
        ahead = {
            str(task_id): await queues.count_ahead(tx, *await tasks.get_task(tx, task_id))
            for task_id in (TaskId(first, 0), TaskId(first, 2), TaskId(urgent, 0), TaskId(last, 0))
        }
    assert list(ahead.values()) == [1, 3, 0, 4]


async def test_a_queue_is_served_by_whoever_lives_and_takes_more(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("silent", "w", "h", ("old",)))
    await world.clock.advance(31)
    await register(world.ledger, Registration("w1", "w", "h", ("a", "b")))
    await register(world.ledger, Registration("w2", "w", "h", ("b", "c")))
    await register(world.ledger, Registration("w3", "w", "h", ("d",)))
    await drain(world.ledger, "w3", actor="eve")
    await register(world.ledger, Registration("w4", "w", "h", ("c",), replaces="w2"))
    found = await queues_of(database)
    assert {name: row.workers for name, row in found.items()} == {"a": 1, "b": 1, "c": 1}
    await pause_queue(world.ledger, "d", actor="eve")
    await world.submit(queue="d")
    assert not (await queues_of(database))["d"].is_served
    async with database.transaction() as tx:
        assert not (await queues.read_condition(tx, "d")).is_served, "it drains"


async def test_who_holds_tasks_without_having_registered_serves_their_queue(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("known", "w", "h", ("other",)))
    await world.submit([1, 2], queue="q")
    assert not (await queues_of(database))["q"].is_served
    await world.claim(worker="known")
    assert not (await queues_of(database))["q"].is_served, "it has said what it serves"
    await world.claim(worker="stranger")
    row = (await queues_of(database))["q"]
    assert (row.is_served, row.workers, row.running) == (True, 0, 2)
    async with database.transaction() as tx:
        assert (await queues.read_condition(tx, "q")).is_served, "a job's page says the same"
        assert not (await queues.read_condition(tx, "other-q")).is_served


async def test_what_stands_in_line_is_added_up_by_what_is_in_its_way(
    world: World, lasting: Raw, database: Database
) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("served", "closed")))
    for queue, count in (("served", 2), ("closed", 3), ("closed too", 1), ("left", 4)):
        await world.submit(replicas=count, queue=queue.replace(" ", "-"))
    for queue in ("closed", "closed-too"):
        await pause_queue(world.ledger, queue, actor="eve")
    placed = await world.submit(replicas=5, queue=None)
    async with database.transaction() as tx:
        view = await queues.list_lines(tx)
        assert await queues.count_placed_of_jobs(tx, [placed, placed + 1], 100) == 5
        assert await queues.count_placed_of_jobs(tx, [placed], 4) == 4
    assert view.add_up() == (2 + 5, 3 + 1, 4)
    assert not view.is_estimate
    await lasting.run(
        "insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index)"
        " select '', 0, now(), $1, n from generate_series(100, 40099) as n",
        placed,
    )
    async with database.transaction() as tx:
        view = await queues.list_lines(tx)
    assert view.is_estimate
    assert 20_000 < view.placed < 80_000


async def test_those_that_stand_in_line_are_told_apart(world: World, database: Database) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", cpu=2.0)
    job_id = await world.submit(
        replicas=4, queue=None, max_retries_preemption=5, max_task_failures=4
    )
    await world.submit(queue=None, not_before=32_000_000_000)
    assert len(await cluster.place()) == 2
    await cluster.end(TaskId(job_id, 1), "worker_failed")
    async with database.transaction() as tx:
        standing = await queues.read_standing(tx, job_id, [0, 1, 2, 7])
        assert await queues.count_jobs_in_line(tx, 10) == 1
    assert standing == {1: "name-w1", 2: None}


async def test_jobs_in_line_are_counted_up_to_a_bound(
    world: World, lasting: Raw, database: Database
) -> None:
    async with database.transaction() as tx:
        assert await queues.count_jobs_in_line(tx, 10) == 0
    for job_id in range(5):
        await lasting.run(
            "insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index)"
            " select '', 0, now(), $1, n from generate_series(1, 30) as n",
            job_id,
        )
    await world.submit()
    async with database.transaction() as tx:
        assert await queues.count_jobs_in_line(tx, 10) == 5
        assert await queues.count_jobs_in_line(tx, 3) == 3
