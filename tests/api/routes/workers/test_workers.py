"""Workers as people see them, and a drain."""

from typing import Any

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.operations.register import Registration, drain, register
from tests.api.face import Face
from tests.cluster import Cluster
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def test_workers_are_listed_with_their_health_in_pages(face: Face, world: World) -> None:
    for worker_id in ("host/old", "host/new"):
        await register(world.ledger, Registration(worker_id, "w", "host", ("q",)))
    await world.submit()
    await world.claim(worker="host/new")
    await world.clock.advance(31)
    page = await get(face, "/api/workers?page_size=1")
    token = page["next_page_token"]
    rest = await get(face, f"/api/workers?page_size=1&page_token={token}")
    found = [*page["workers"], *rest["workers"]]
    assert [worker["worker_id"] for worker in found] == ["host/new", "host/old"]
    assert [worker["health"] for worker in found] == ["silent", "silent"]
    assert [worker["running"] for worker in found] == [1, 0]
    assert rest["next_page_token"] is None


async def test_a_worker_is_shown_by_its_id_slashes_and_all(face: Face, world: World) -> None:
    await register(world.ledger, Registration("host/w:1@a", "name", "host", ("q", "r")))
    worker = await get(face, "/api/workers/host/w:1@a")
    assert (worker["name"], worker["queues"], worker["health"]) == ("name", ["q", "r"], "healthy")
    assert (worker["draining"], worker["running"]) == (False, 0)
    assert (worker["placed"], worker["resources"], worker["attributes"]) == (False, None, {})


async def test_two_workers_of_one_process_name_each_other(face: Face, world: World) -> None:
    await Cluster(world).add("called", book="b")
    await register(world.ledger, Registration("claims", "w", "host", ("q",), book="b"))
    await register(world.ledger, Registration("alone", "w", "host", ("q",)))
    listed = (await get(face, "/api/workers"))["workers"]
    assert {each["worker_id"]: each["same_process"] for each in listed} == {
        "called": "claims",
        "claims": "called",
        "alone": None,
    }
    assert (await get(face, "/api/workers/claims"))["same_process"] == "called"
    # One half that is registered anew is another incarnation of the same process.
    await Cluster(world).add("later", book="b")
    assert (await get(face, "/api/workers/claims"))["same_process"] == "later"


async def test_a_called_worker_tells_what_it_has_and_how_its_calls_went(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", gpu=2, gpu_model="H100", attributes={"region": "eu", "cores": 8})
    job_id = await world.submit(replicas=2, queue=None, resources={"cpu": 1.5, "gpu": 1})
    assert len(await cluster.place()) == 2
    await cluster.miss("w1", "no answer within 10 s")
    worker = await get(face, "/api/workers/w1")
    assert (worker["placed"], worker["address"]) == (True, "http://w1:7000")
    assert (worker["health"], worker["consecutive_failures"]) == ("failing", 1)
    assert worker["last_failure"] == "no answer within 10 s"
    assert worker["last_answer_at_ms"] == worker["last_seen_at_ms"]
    resources = worker["resources"]
    used = {name: amount for name, amount in resources["used"].items() if amount}
    assert used == {"cpu": 3.0, "gpu": 2}
    assert (resources["capacity"]["cpu"], resources["free"]["cpu"]) == (8.0, 5.0)
    assert (resources["free"]["gpu"], resources["gpu_model"]) == (0, "H100")
    assert worker["attributes"] == {"region": "eu", "cores": 8}
    assert (worker["running"], worker["running_tasks"]) == (2, [f"{job_id}.0", f"{job_id}.1"])
    assert "secret" not in worker
    [listed] = (await get(face, "/api/workers"))["workers"]
    assert listed == worker
    await world.cancel_task(TaskId(job_id, 0))
    worker = await get(face, "/api/workers/w1")
    assert worker["resources"]["used"]["cpu"] == 3.0, "an ending lease holds its share"


async def test_a_dead_worker_is_lost_and_a_draining_one_says_so(face: Face, world: World) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", "w2")
    for _ in range(3):
        await cluster.miss("w1")
    await drain(world.ledger, "w2", actor="eve")
    [second, first] = (await get(face, "/api/workers"))["workers"]
    assert (first["health"], first["consecutive_failures"]) == ("lost", 3)
    assert first["lost_cause"].startswith("3 heartbeats in a row failed")
    assert (second["health"], second["draining"]) == ("healthy", True)


@pytest.mark.parametrize(("worker_id", "status"), [("nobody", 404), ("no%20body", 400)])
async def test_a_worker_that_is_none_is_not_shown(face: Face, worker_id: str, status: int) -> None:
    said = await face.get(f"/api/workers/{worker_id}")
    assert said.status == status
    assert said.error["message"]


async def test_a_worker_that_is_not_there_cannot_drain(quiet_face: Face) -> None:
    said = await quiet_face.post("/api/workers/nobody:drain")
    assert (said.status, said.error["code"]) == (404, "not_found")
    said = await quiet_face.post("/api/workers/a%20b:drain")
    assert (said.status, said.error["field"]) == (400, "worker_id")
