"""Why placed tasks wait, as any server would say."""

import asyncio
from typing import Any

import pytest

from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit
from holdfast.rules.placement.scheduler import Reason
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.reasons import DEMANDS_EXPLAINED_MAX, LOOKS_MAX, Reasons
from holdfast.store.database import Database
from tests.cluster import Cluster
from tests.world import World


class CountedDatabase(Database):
    """Counts the transactions it is asked for."""

    count = 0

    def transaction(self) -> Any:
        self.count += 1
        return super().transaction()


@pytest.fixture
def cluster(world: World) -> Cluster:
    return Cluster(world)


@pytest.fixture
def reasons(world: World, database: Database) -> Reasons:
    """A server that looks again each time."""
    return Reasons(world.ledger, database, fresh_seconds=0.0)


async def why(reasons: Reasons, job_id: int) -> Reason:
    """Ask for the reason of a job whose tasks keep away from nobody."""
    found = await reasons.find(job_id, [None])
    assert set(found) == {None}
    return found[None]


async def test_the_numbers_are_those_of_the_fleet(
    world: World, cluster: Cluster, reasons: Reasons
) -> None:
    job_id = await world.submit(
        queue=None,
        resources={"gpu": 4},
        constraints=[{"attribute": "region", "op": "=", "value": "eu"}],
    )
    assert (await why(reasons, job_id)).code == "no_workers"
    await cluster.add("a", "b", gpu=4, attributes={"region": "eu"})
    await cluster.add("c", gpu=4, attributes={"region": "us"})
    blocker = await world.submit(
        replicas=2,
        queue=None,
        priority=1,
        resources={"gpu": 2, "cpu": 5},
        constraints=[{"attribute": "region", "op": "=", "value": "eu"}],
    )
    assert len(await cluster.place()) == 2
    reason = await why(reasons, job_id)
    assert reason.code == "lacks_resources"
    assert reason.message == "3 workers: 2 lack gpu (need 4, most free 2), 1 fails region=eu"
    assert reason.details["lacks"] == [{"workers": 2, "resource": "gpu", "need": 4, "most_free": 2}]
    for index in range(2):
        await cluster.end(TaskId(blocker, index))
    assert (await why(reasons, job_id)).message == "fits now, next pass"
    assert [placed.task_id for placed in await cluster.place()] == [TaskId(job_id, 0)]
    assert await reasons.find(job_id, [None]) == {}


async def test_a_gang_is_told_what_the_largest_group_has(
    world: World, cluster: Cluster, reasons: Reasons
) -> None:
    await cluster.add("a", "b", "c", cpu=2.0, attributes={"rack": "r1"})
    await cluster.add("d", "e", "f", "g", cpu=2.0, attributes={"rack": "r2"})
    await world.submit(
        queue=None,
        resources={"cpu": 2},
        constraints=[{"attribute": "rack", "op": "=", "value": "r2"}],
    )
    await cluster.place()
    job_id = await world.submit(replicas=8, queue=None, coscheduling={"group_by": "rack"})
    reason = await why(reasons, job_id)
    assert reason.code == "gang_waits"
    assert reason.message.startswith("largest rack has 6 of 8; 7 workers: ")


async def test_a_gang_waits_for_its_members(
    world: World, cluster: Cluster, reasons: Reasons
) -> None:
    await cluster.add("a", "b", "c")
    fields: dict[str, Any] = {"max_retries_preemption": 5, "backoff": {"base": 0.0}}
    job_id = await world.submit(replicas=3, queue=None, coscheduling={}, **fields)
    assert len(await cluster.place()) == 3
    await cluster.end(TaskId(job_id, 0), "worker_failed")
    reason = await why(reasons, job_id)
    assert (reason.code, reason.message) == ("gang_missing", "waits for 2 members of its gang")


async def test_build_slots_are_waited_for(world: World, cluster: Cluster, reasons: Reasons) -> None:
    await cluster.add("a", cpu=100.0)
    job_id = await world.submit(replicas=20, queue=None)
    assert len(await cluster.place()) == 8
    reason = await why(reasons, job_id)
    assert reason.code == "build_slots"
    assert reason.message.startswith("waits for build slots; 1 worker: ")


async def test_a_retry_that_keeps_away_from_a_worker_has_a_line_of_its_own(
    world: World, cluster: Cluster, reasons: Reasons
) -> None:
    await cluster.add("a", cpu=1.0)
    fields: dict[str, Any] = {"max_retries_preemption": 5, "backoff": {"base": 0.0}}
    job_id = await world.submit(replicas=2, queue=None, resources={"cpu": 1}, **fields)
    await cluster.place()
    await cluster.end(TaskId(job_id, 0), "worker_failed")
    found = await reasons.find(job_id, ["name-a", None, "somebody-else"])
    assert found[None].message == "fits now, next pass"
    assert found["name-a"].code == "lacks_resources"
    assert found["somebody-else"] == found[None]


async def test_one_look_serves_all_who_ask_at_once(
    world: World, cluster: Cluster, database_url: str
) -> None:
    await cluster.add("a", cpu=1.0)
    first = await world.submit(queue=None, resources={"cpu": 1})
    second = await world.submit(replicas=3, queue=None, resources={"cpu": 1})
    async with CountedDatabase(database_url) as database:
        reasons = Reasons(world.ledger, database, fresh_seconds=3600.0)
        answers = await asyncio.gather(*(why(reasons, job_id) for job_id in (first, second) * 20))
        assert database.count == 1
        assert {answer.code for answer in answers[::2]} == {"fits"}
        assert {answer.code for answer in answers[1::2]} == {"lacks_resources"}
        third = await world.submit(queue=None)
        assert (await why(reasons, third)).code == "lacks_resources"
        assert database.count == 2, "a job that has come since is looked for"
        await why(reasons, first)
        assert database.count == 2


async def test_a_look_that_has_aged_is_not_used(
    world: World, cluster: Cluster, database_url: str
) -> None:
    job_id = await world.submit(queue=None)
    async with CountedDatabase(database_url) as database:
        reasons = Reasons(world.ledger, database, fresh_seconds=0.0)
        assert (await why(reasons, job_id)).code == "no_workers"
        await cluster.add("a")
        assert (await why(reasons, job_id)).code == "fits"
        assert database.count == 2


async def test_in_a_crowd_a_job_is_explained_by_what_is_free_now(
    world: World, cluster: Cluster, database_url: str
) -> None:
    await cluster.add("a", cpu=2.0)
    crowd = [await world.submit(queue=None, resources={"cpu": 1}) for _ in range(4)]
    large = await world.submit(replicas=2, queue=None, resources={"cpu": 2}, coscheduling={})
    async with CountedDatabase(database_url) as database:
        reasons = Reasons(world.ledger, database, jobs_max=4, fresh_seconds=3600.0)
        reason = await why(reasons, crowd[3])
        assert reason.code == "in_line"
        assert reason.message.startswith("there is room for it now, but more than 4 jobs stand in")
        assert reason.details["jobs_in_line_min"] == 4
        reason = await why(reasons, large)
        assert reason.code == "never_fits"
        assert (reason.details["jobs_in_line_min"], reason.details["waiting"]) == (4, 2)
        await asyncio.gather(*(why(reasons, job_id) for job_id in (crowd[3], large)))
        assert database.count == 2
        for job_id in crowd[:2]:
            await world.cancel_job(job_id)
        assert await reasons.find(crowd[0], [None]) == {}
    whole = Reasons(world.ledger, world.ledger.database, jobs_max=5)
    assert (await why(whole, crowd[3])).code == "fits"


async def test_what_is_kept_of_a_crowd_is_bounded(world: World, database_url: str) -> None:
    spec = parse_spec({"entrypoint": {"function": "app:work"}})
    jobs = await submit(world.ledger, [Submission(spec)] * (LOOKS_MAX + 1))
    job_ids = [job.job_id for job in jobs if isinstance(job, Submitted)]
    async with CountedDatabase(database_url) as database:
        reasons = Reasons(world.ledger, database, jobs_max=0, fresh_seconds=3600.0)
        for job_id in job_ids:
            assert (await why(reasons, job_id)).code == "no_workers"
        count = database.count
        await why(reasons, job_ids[-1])
        assert database.count == count
        await why(reasons, job_ids[0])
        assert database.count == count + 1, "the oldest look has been forgotten"


async def test_of_many_lines_of_a_job_a_few_are_explained(
    world: World, cluster: Cluster, reasons: Reasons
) -> None:
    await cluster.add("a", cpu=1.0)
    job_id = await world.submit(replicas=30, queue=None, resources={"cpu": 2})
    for index in range(20):
        await world.clock.fetch(
            "update holdfast.ready set avoid = $1 where job_id = $2 and task_index = $3",
            f"worker-{index}",
            job_id,
            index,
        )
    avoids = [None, *(f"worker-{index}" for index in range(20))]
    found = await reasons.find(job_id, avoids)
    assert set(found) == set(avoids)
    assert len({id(reason) for reason in found.values()}) == DEMANDS_EXPLAINED_MAX
