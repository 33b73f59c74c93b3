"""Placing: what is read, what a plan may still commit, and what it may not."""

from typing import Any

import pytest
from asyncpg import RaiseError

from holdfast.model.submitting.spec import Limits
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.placed.leadership import Deposed, resign
from holdfast.operations.placed.place import Scheduler
from holdfast.operations.placed.snapshot import Snapshot
from holdfast.operations.register import drain
from holdfast.rules.placement.ports import PORT_END, PORT_MIN
from holdfast.store.database import Database, Transaction
from tests.audits import assert_audit_is_silent
from tests.placed_world import GB, PlacedWorld, break_moves
from tests.stand_in import StandIn

PENDING, ASSIGNED, KILLED = TaskState.PENDING, TaskState.ASSIGNED, TaskState.KILLED


async def test_a_placement_is_an_attempt_with_a_lease(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(timeout=600.0, lease=90.0)
    assert await cluster.place() == {TaskId(job_id, 0): "w1"}
    task = await cluster.task(TaskId(job_id, 0))
    [attempt] = task.attempts
    assert (task.state, task.attempt, attempt["worker_id"]) == (ASSIGNED, 0, "w1")
    lease = await cluster.lease(TaskId(job_id, 0))
    assert lease is not None
    assert (lease["placed"], lease["acknowledged"], lease["ending"]) == (True, False, False)
    assert (lease["duration"].total_seconds(), lease["run_timeout"].total_seconds()) == (90, 600)
    assert lease["run_deadline_at"] is None, "the run is timed from its start"
    assert await cluster.count("ready") == 0
    [event] = await cluster.clock.fetch(
        "select actor, cause from holdfast.events where type = 'placed'"
    )
    assert tuple(event) == ("scheduler", "on w1")
    assert await cluster.place() == {}
    await assert_audit_is_silent(database)


async def test_a_lease_outlives_two_heartbeats_however_its_job_came(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    short, long = [await cluster.submit(lease=lease) for lease in (40.0, 100.0)]
    # As after a restart with rarer heartbeats, and as for SQL, which does not know of them.
    cluster.ledger.limits = Limits(placed_lease_seconds_min=60.0)
    await cluster.place()
    leases = [await cluster.lease(TaskId(job_id, 0)) for job_id in (short, long)]
    assert [lease and lease["duration"].total_seconds() for lease in leases] == [60.0, 100.0]
    await assert_audit_is_silent(database)


async def test_priority_goes_first_and_then_age(cluster: PlacedWorld) -> None:
    await cluster.add("w1", cpu=2.0)
    old = await cluster.submit()
    await cluster.clock.advance(5)
    young = await cluster.submit()
    urgent = await cluster.submit(priority=5)
    assert set(await cluster.place()) == {TaskId(urgent, 0), TaskId(old, 0)}
    assert await cluster.states(young) == [PENDING]


async def test_queue_work_is_never_placed_and_placed_work_never_claimed(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    await cluster.submit(queue="q")
    placed = await cluster.submit()
    assert set(await cluster.place()) == {TaskId(placed, 0)}
    [mine] = await cluster.claim()
    assert mine.task_id.job_id != placed


NOT_YET: list[tuple[str, dict[str, Any]]] = [
    ("cpu", {"resources": {"cpu": 9}}),
    ("memory", {"resources": {"memory": "33GB"}}),
    ("disk", {"resources": {"disk": "101GB"}}),
    ("gpu", {"resources": {"gpu": 1}}),
    ("constraint", {"constraints": [{"attribute": "zone", "value": "b"}]}),
    ("not before", {"not_before": 4_000_000_000.0}),
]


@pytest.mark.parametrize(("_", "fields"), NOT_YET, ids=[name for name, _ in NOT_YET])
async def test_what_does_not_fit_waits(cluster: PlacedWorld, _: str, fields: Any) -> None:
    await cluster.add("w1", attributes={"zone": "a"})
    job_id = await cluster.submit(**fields)
    assert await cluster.place() == {}
    assert await cluster.states(job_id) == [PENDING]


async def test_capacity_is_what_unreleased_leases_leave(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", cpu=4.0, memory=8 * GB, gpu=1)
    big = await cluster.submit(resources={"cpu": 3, "memory": "6GB", "gpu": 1})
    task_id, worker = await cluster.placed(big)
    small = await cluster.submit(resources={"cpu": 2})
    assert await cluster.place() == {}
    await cluster.cancel_job(big)
    assert await cluster.place() == {}, "its process is not gone yet"
    await cluster.beat()
    assert worker.running() == []
    assert await cluster.lease(task_id) is None
    assert await cluster.place() == {TaskId(small, 0): "w1"}
    await assert_audit_is_silent(database)


async def test_what_a_claimed_task_uses_is_not_counted(cluster: PlacedWorld) -> None:
    """Workers that claim have nothing to do with those that are called."""
    await cluster.add("w1", cpu=1.0)
    await cluster.submit(queue="q")
    await cluster.claim(worker="w1")
    job_id = await cluster.submit()
    assert await cluster.place() == {TaskId(job_id, 0): "w1"}


async def shut(cluster: PlacedWorld, how: str) -> None:
    """Make a worker one that is given nothing."""
    if how == "draining":
        await drain(cluster.ledger, "w1", actor="ops")
    elif how == "failing":
        await cluster.miss("w1")
    elif how == "dead":
        await cluster.die(cluster.workers["w1"])
    else:
        await cluster.register(StandIn("w2"), replaces="w1", host="w1")


@pytest.mark.parametrize("how", ["draining", "failing", "dead", "replaced"])
async def test_a_worker_that_should_get_nothing_gets_nothing(
    cluster: PlacedWorld, how: str
) -> None:
    await cluster.add("w1")
    await cluster.submit()
    await shut(cluster, how)
    assert await cluster.place() == {}


async def test_a_worker_that_has_not_answered_gets_nothing(cluster: PlacedWorld) -> None:
    await cluster.register(StandIn("w1"))
    job_id = await cluster.submit()
    assert await cluster.place() == {}
    await cluster.beat()
    assert await cluster.place() == {TaskId(job_id, 0): "w1"}


class Late(Scheduler):
    """A scheduler that something happens to between its plan and its commit."""

    def __init__(self, cluster: PlacedWorld, change: Any) -> None:
        super().__init__(cluster.ledger)
        self._change = change

    async def read(self, tx: Transaction) -> Snapshot:
        snapshot = await super().read(tx)
        await self._change()
        return snapshot


@pytest.mark.parametrize("how", ["draining", "failing", "dead", "replaced"])
async def test_a_worker_that_was_shut_after_the_plan_gets_nothing(
    cluster: PlacedWorld, database: Database, how: str
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(replicas=2)
    late = Late(cluster, lambda: shut(cluster, how))
    assert (await late.run(await cluster.term())).placed == []
    assert await cluster.states(job_id) == [PENDING] * 2
    assert await cluster.count("ready") == 2
    await assert_audit_is_silent(database)


async def test_a_task_that_was_cancelled_after_the_plan_is_not_placed(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(inputs=[1, 2, 3])
    late = Late(cluster, lambda: cluster.cancel_task(TaskId(job_id, 1)))
    placed = (await late.run(await cluster.term())).placed
    assert [item.task_id.task_index for item in placed] == [0, 2]
    assert await cluster.states(job_id) == [ASSIGNED, KILLED, ASSIGNED]
    assert await cluster.count("ready") == 0
    await assert_audit_is_silent(database)


async def test_a_job_that_was_cancelled_after_the_plan_is_not_placed(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(replicas=2)
    late = Late(cluster, lambda: cancel_job(cluster.ledger, job_id, "soft", actor="ops"))
    assert (await late.run(await cluster.term())).placed == []
    await cluster.run_chores()
    assert await cluster.states(job_id) == [KILLED] * 2
    await assert_audit_is_silent(database)


async def test_lines_of_jobs_that_have_ended_are_cleared(cluster: PlacedWorld) -> None:
    ended, live = await cluster.submit(replicas=3), await cluster.submit()
    await cancel_job(cluster.ledger, ended, "hard", actor="operator")
    assert await cluster.count("ready") == 4, "no sweep has come by yet"
    assert await cluster.place() == {}
    rows = await cluster.clock.fetch("select job_id from holdfast.ready")
    assert [row[0] for row in rows] == [live]


async def test_of_a_gang_all_are_placed_or_none(cluster: PlacedWorld, database: Database) -> None:
    await cluster.add("w1", "w2", cpu=1.0)
    job_id = await cluster.submit(replicas=3, coscheduling={})
    assert await cluster.place() == {}
    await cluster.add("w3", cpu=1.0)
    assert len(await cluster.place()) == 3
    assert await cluster.states(job_id) == [ASSIGNED] * 3
    await assert_audit_is_silent(database)


@pytest.mark.parametrize("how", ["draining", "dead"])
async def test_a_gang_that_lost_a_worker_after_the_plan_waits_as_a_whole(
    cluster: PlacedWorld, database: Database, how: str
) -> None:
    await cluster.add("w1", "w2", cpu=1.0)
    gang = await cluster.submit(replicas=2, coscheduling={})
    late = Late(cluster, lambda: shut(cluster, how))
    assert (await late.run(await cluster.term())).placed == []
    assert await cluster.states(gang) == [PENDING] * 2
    await assert_audit_is_silent(database)


async def test_a_gang_that_lost_a_member_after_the_plan_is_undone_alone(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", "w2", "w3", cpu=1.0)
    gang = await cluster.submit(replicas=2, coscheduling={})
    single = await cluster.submit()

    async def take_away() -> None:
        await cluster.clock.fetch(
            "delete from holdfast.ready where job_id = $1 and task_index = 1", gang
        )

    late = Late(cluster, take_away)
    placed = (await late.run(await cluster.term())).placed
    assert [item.task_id for item in placed] == [TaskId(single, 0)]
    assert await cluster.states(gang) == [PENDING] * 2
    assert await cluster.count("leases") == 1


async def test_what_is_broken_holds_up_nothing_else_and_is_raised_last(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", "w2", "w3", cpu=1.0)
    broken = await cluster.submit(priority=5)
    await break_moves(cluster, broken)
    gang = await cluster.submit(replicas=2, coscheduling={})
    single = await cluster.submit()
    made = await cluster.scheduler.run(await cluster.term())
    assert [item.task_id.job_id for item in made.placed] == [gang, gang, single]
    [error] = made.broken
    assert isinstance(error, RaiseError)
    with pytest.raises(ExceptionGroup, match="cannot be placed"):
        made.raise_broken()
    assert await cluster.states(broken) == [PENDING]
    await assert_audit_is_silent(database)


async def test_a_retry_prefers_another_worker_and_takes_the_same_if_there_is_none(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(max_retries_failure=5)
    task_id, worker = await cluster.placed(job_id)
    worker.fail(task_id)
    await cluster.beat()
    assert await cluster.place() == {task_id: "w1"}
    await cluster.beat()
    worker.fail(task_id)
    await cluster.beat()
    await cluster.add("w2")
    assert await cluster.place() == {task_id: "w2"}


async def test_ports_are_given_per_host_and_noted_with_the_attempt(
    cluster: PlacedWorld, database: Database
) -> None:
    first, second = StandIn("w1"), StandIn("w2")
    for worker in (first, second):
        await cluster.register(worker, host="h", cpu=2.0)
    await cluster.beat()
    job_id = await cluster.submit(inputs=[1, 2, 3, 4], resources={"ports": ["rpc", "http"]})
    assert len(await cluster.place()) == 4
    rows = await cluster.clock.fetch(
        "select leases.ports::text, attempt_usage.ports::text "
        "from holdfast.leases join holdfast.attempt_usage using (job_id, task_index, attempt)"
    )
    assert all(row[0] == row[1] for row in rows)
    used = await cluster.clock.fetch(
        "select value::int from holdfast.leases, jsonb_each_text(ports) as port"
    )
    ports = [row[0] for row in used]
    assert len(set(ports)) == 8, "no port of a host is given twice"
    assert all(PORT_MIN <= port < PORT_END for port in ports)
    await cluster.cancel_job(job_id)
    await assert_audit_is_silent(database)


async def test_a_deposed_leader_places_nothing(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit()
    term = await cluster.term()

    async def depose() -> None:
        await resign(cluster.ledger, term.leader)

    with pytest.raises(Deposed):
        await Late(cluster, depose).run(term)
    with pytest.raises(Deposed):
        await Scheduler(cluster.ledger).run(term)
    assert await cluster.states(job_id) == [PENDING]


async def test_a_scheduler_that_was_just_started_sees_what_the_last_one_saw(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", cpu=3.0)
    await cluster.submit(resources={"cpu": 2})
    assert len(await cluster.place()) == 1
    await cluster.restart()
    job_id = await cluster.submit(replicas=2)
    assert set(await cluster.place()) == {TaskId(job_id, 0)}
    await assert_audit_is_silent(database)


async def test_a_gang_is_spread_over_hosts_or_packed_on_one(cluster: PlacedWorld) -> None:
    await cluster.add("w1", "w2", "w3", cpu=3.0)
    await cluster.submit(replicas=3, coscheduling={"hosts": "spread"})
    assert sorted((await cluster.place()).values()) == ["w1", "w2", "w3"]
    too_many = await cluster.submit(replicas=4, coscheduling={"hosts": "spread"})
    assert await cluster.place() == {}
    await cluster.cancel_job(too_many)
    together = await cluster.submit(replicas=2, coscheduling={"hosts": "pack"})
    placed = await cluster.place()
    assert {task_id.job_id for task_id in placed} == {together}
    assert len(set(placed.values())) == 1
