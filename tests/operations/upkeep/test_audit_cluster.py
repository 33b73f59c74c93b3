"""The audit of placed work: silent on a healthy ledger, and it names what is planted."""

from collections.abc import Iterator

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.placed_world import PlacedWorld
from tests.stand_in import StandIn


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Leave one ledger in which every kind of placed work stands.

    Job 1 runs on w1, with two ports; task 0 of job 2 has just been placed on w2, which is full by
    that, and task 1 waits. Job 3, a gang of two, runs on w3. Job 4 was claimed by w9.
    Job 5 has failed once, and should be kept away from w4. Jobs 6 and 7 have a device each, on w5.
    """
    cluster = PlacedWorld(ledger, clock)
    await cluster.watch()
    await cluster.add("w1", cpu=1.0)
    first = await cluster.submit(resources={"ports": ["rpc", "http"], "cpu": 0.5})
    await cluster.placed(first)
    await cluster.add("w2", cpu=1.0)
    await cluster.submit(inputs=[1, 2], resources={"cpu": 1, "ports": ["rpc"]})
    await cluster.place()
    await cluster.add("w3", cpu=2.0)
    await cluster.submit(replicas=2, coscheduling={}, resources={"cpu": 0.9}, priority=9)
    assert len(await cluster.place()) == 2
    await cluster.beat("w3")
    await cluster.submit(queue="q")
    await cluster.claim(worker="w9")
    await cluster.add("w4", cpu=0.4, attributes={"zone": "d"})
    constraints = [{"attribute": "zone", "value": "d"}]
    resources = {"cpu": 0.4}
    fifth = await cluster.submit(
        resources=resources, max_retries_failure=1, constraints=constraints
    )
    task_id, worker = await cluster.placed(fifth)
    worker.fail(task_id)
    await cluster.beat(worker.worker_id)
    await cluster.add("w5", cpu=1.0, gpu=2)
    for _ in range(2):
        await cluster.placed(await cluster.submit(resources={"cpu": 0.5, "gpu": 1}, priority=9))


def lease(job_id: int, task_index: int = 0) -> str:
    """Pick one lease."""
    return f"where job_id = {job_id} and task_index = {task_index}"


A_PORT_OF_JOB_1 = "(select ports -> 'rpc' from leases where job_id = 1)"

DAMAGES = [
    Damage("capacity_exceeded", "w2",
           """update workers set capacity = '{"cpu": 0.5}' where worker_id = 'w2'"""),
    Damage("capacity_exceeded", "w1",
           f"update leases set worker_id = 'w1', ports = '{{\"rpc\": 1}}' {lease(2)}"),
    Damage("capacity_exceeded", "w1",
           "update jobs set spec = jsonb_set(spec, '{resources,gpu}', '1') where job_id = 1",
           (("devices_differ", "1.0.0"),)),
    Damage("capacity_exceeded", "w1",
           "update jobs set spec = jsonb_set(spec, '{resources,memory}', '32000000001') "
           "where job_id = 1"),
    Damage("capacity_exceeded", "w1",
           "update jobs set spec = jsonb_set(spec, '{resources,disk}', '100000000001') "
           "where job_id = 1"),
    # Job 4 is claimed; of a process that has placed work, too, it counts if it names resources.
    Damage("capacity_exceeded", "w2",
           "update workers set book = 'b' where worker_id = 'w2'; "
           f"update leases set book = 'b' {lease(4)}; "
           "update jobs set spec = jsonb_set(spec, '{resources}', '{\"cpu\": 99}') "
           "where job_id = 4"),
    Damage("too_many_unstarted", "w2",
           "insert into tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, "
           "state) select 2, n, true, now(), now(), now(), 9 from generate_series(10, 18) as n; "
           "insert into leases (job_id, task_index, attempt, worker_id, lease_token, created_at, "
           "expires_at, duration, placed, ports) select 2, n, 0, 'w2', gen_random_uuid(), "
           "holdfast.now(), now(), '60 s', true, jsonb_build_object('rpc', 100 + n) "
           "from generate_series(10, 18) as n; "
           """update workers set capacity = '{"cpu": 99}' where worker_id = 'w2'""",
           (("number_of_tasks_differs", "2"), ("counts_differ", "2"),
            *(("task_differs_from_its_last_event", f"2.{n}") for n in range(10, 19)))),
    Damage("lease_placed_against_its_job", "4.0.0",
           f"update leases set placed = true, worker_id = 'w4' {lease(4)}"),
    Damage("lease_placed_against_its_job", "3.0.0", f"update leases set placed = false {lease(3)}"),
    Damage("placed_lease_of_a_worker_that_is_not_called", "3.1.0",
           f"update leases set worker_id = 'nobody' {lease(3, 1)}"),
    Damage("placed_lease_of_a_worker_that_is_not_called", "2.0.0",
           "update workers set address = null, secret_hash = null, capacity = null "
           "where worker_id = 'w2'"),
    Damage("ports_differ", "1.0.0", f"update leases set ports = null {lease(1)}"),
    Damage("ports_differ", "1.0.0", f"update leases set ports = ports - 'rpc' {lease(1)}"),
    Damage("ports_differ", "3.0.0",
           f"""update leases set ports = '{{"rpc": 7}}' {lease(3)}"""),
    Damage("port_given_twice", "1.0.0",
           "update workers set host = 'host-w1' where worker_id = 'w2'; "
           f"update leases set ports = jsonb_set(ports, '{{rpc}}', {A_PORT_OF_JOB_1}) {lease(2)}",
           (("port_given_twice", "2.0.0"),)),
    Damage("devices_differ", "6.0.0", f"update leases set devices = null {lease(6)}"),
    Damage("devices_differ", "4.0.0", f"""update leases set devices = '["0"]' {lease(4)}"""),
    Damage("device_given_twice", "6.0.0", f"""update leases set devices = '["1"]' {lease(6)}""",
           (("device_given_twice", "7.0.0"),)),
    Damage("account_without_attempt", "1.0.7",
           "insert into attempt_usage (job_id, task_index, attempt) values (1, 0, 7)"),
    Damage("gang_not_whole", "3", "update jobs set assigned = 1, pending = 1 where job_id = 3",
           (("counts_differ", "3"),)),
    Damage("ready_row_differs", "2.1", f"update ready set avoid = 'w1' {lease(2, 1)}"),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database in which the scene has been played."""
    with a_scene(postgres, play_scene) as url:
        yield url


async def test_the_scene_itself_is_sound(scene_url: str) -> None:
    async with Database(scene_url) as database:
        assert await reported(database) == set()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[1]}")
async def test_planted_damage_is_named(scene_url: str, damage: Damage) -> None:
    found = await find_planted(scene_url, damage)
    assert found == {(damage.invariant, damage.subject), *damage.also}


async def test_a_worker_that_adopts_more_than_it_has_is_no_damage(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", host="h", cpu=4.0)
    task_id, old = await cluster.placed(await cluster.submit(resources={"cpu": 4}))
    fence = await cluster.fence(task_id)
    new = StandIn("w2")
    new.held = old.held
    await cluster.register(new, replaces="w1", adopts=(fence,), host="h", cpu=2.0)
    await assert_audit_is_silent(database)
    await cluster.beat("w2")
    await cluster.submit()
    assert await cluster.place() == {}, "it has nothing left to give"


async def test_sums_of_fractions_that_fill_a_worker_are_no_damage(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1", cpu=1.0)
    job_id = await cluster.submit(inputs=list(range(10)), resources={"cpu": 0.1})
    while placed := await cluster.place():
        await cluster.beat()
        for task_id in placed:
            worker.start(task_id)
        await cluster.beat()
    assert len(worker.running()) == 10
    assert (await cluster.task(TaskId(job_id, 9))).attempts
    await assert_audit_is_silent(database)
