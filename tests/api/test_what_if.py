"""What a task would wait for if something were otherwise: asked, answered, and nothing changed."""

from typing import Any

import pytest

from holdfast.model.workers.resources import Capacity
from holdfast.operations.register import Registration, register
from tests.api.face import Face
from tests.cluster import Cluster
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def ask(face: Face, job_id: int, question: str) -> Any:
    said = await face.get(f"/api/tasks/{job_id}.0/explain?{question}")
    assert said.status == 200, said
    return said.json


async def refused(face: Face, job_id: int, question: str) -> tuple[str, str]:
    said = await face.get(f"/api/tasks/{job_id}.0/explain?{question}")
    assert said.status == 400, said
    return said.json["error"]["field"], said.json["error"]["message"]


async def test_placed_work_is_answered_with_amounts_and_without_a_worker(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("a", cpu=2.0)
    await cluster.add("b", cpu=4.0)
    job_id = await world.submit(queue=None, resources={"cpu": 16})
    told = await ask(face, job_id, "cpu=4")
    assert told["reason"]["code"] == "never_fits"
    assert [near["worker_id"] for near in told["reason"]["nearest"]] == ["b", "a"]
    assert told["what_if"]["supposed"] == "with 4 cpu instead of 16"
    assert told["what_if"]["reason"]["code"] == "fits"
    assert told["lines"][2:5] == [
        "Nearest: worker name-b: 4 of 4 cpu free (needs 16).",
        "Nearest: worker name-a: 2 of 2 cpu free (needs 16).",
        "With 4 cpu instead of 16: fits now, next pass.",
    ]
    told = await ask(face, job_id, "cpu=4&without_worker=name-b")
    assert told["what_if"]["supposed"] == "with 4 cpu instead of 16, without worker name-b"
    [near] = told["what_if"]["reason"]["nearest"]
    assert near["lacks"][0]["message"] == "2 of 2 cpu free (needs 4)"
    again = await ask(face, job_id, "")
    assert again["what_if"] is None
    assert again["reason"] == told["reason"], "asking has changed nothing"
    assert await cluster.place() == []


async def test_what_holds_a_task_back_before_its_turn_still_does(face: Face, world: World) -> None:
    await Cluster(world).add("a")
    first = await world.submit(queue=None, resources={"cpu": 100})
    job_id = await world.submit(queue=None, depends_on=[str(first)], resources={"cpu": 100})
    told = await ask(face, job_id, "cpu=1")
    assert told["what_if"]["reason"]["message"] == f"waits for job {first}"
    assert (await refused(face, job_id, "without_worker=z"))[0] == "without_worker"


async def test_of_queue_work_it_is_known_whether_anybody_is_left(face: Face, world: World) -> None:
    job_id = await world.submit()
    await register(world.ledger, Registration("w1", "one", "h", ("q",)))
    told = await ask(face, job_id, "without_worker=one")
    assert told["reason"]["code"] == "in_queue"
    assert told["what_if"]["reason"]["code"] == "queue_not_served"
    assert "Without worker one: no worker serves queue q." in told["lines"]
    await register(world.ledger, Registration("w2", "two", "h", ("q",)))
    told = await ask(face, job_id, "without_worker=w1")
    assert told["what_if"]["reason"]["code"] == "in_queue"


async def serve(world: World, worker: str, *, cpu: float, book: str | None = None) -> None:
    """Register a worker of the queue that has some cores."""
    room = Capacity(cpu=cpu, memory=10**9)
    found = Registration(worker, f"name-{worker}", "h", ("q",), claims_up_to=room, book=book)
    await register(world.ledger, found)


async def test_claimed_work_that_names_resources_is_answered_with_the_nearest_workers(
    face: Face, world: World
) -> None:
    await serve(world, "a", cpu=2.0)
    await serve(world, "b", cpu=4.0)
    taken = await world.submit(replicas=2, resources={"cpu": 1.5})
    for worker in ("a", "b"):
        assert await face.claim(worker=worker)
    job_id = await world.submit(resources={"cpu": 3})
    told = await ask(face, job_id, "")
    reason = told["reason"]
    assert reason["code"] == "lacks_resources"
    assert reason["message"] == (
        "waiting in queue q: 0 ahead; 2 workers: 2 lack cpu (need 3, most free 2.5)"
    )
    assert told["lines"][2:4] == [
        "Nearest: worker name-b: 2.5 of 4 cpu free (needs 3).",
        "Nearest: worker name-a: 0.5 of 2 cpu free (needs 3).",
    ]
    [task] = (await face.get(f"/api/jobs/{job_id}/tasks")).json["tasks"]
    assert task["pending_reason"] == reason["message"].replace(": 0 ahead", "")
    job = (await face.get(f"/api/jobs/{job_id}")).json
    assert "2 lack cpu" in job["pending_reason"]

    less = await ask(face, job_id, "cpu=2")
    assert less["what_if"]["supposed"] == "with 2 cpu instead of 3"
    assert less["what_if"]["reason"]["code"] == "in_queue", "b has 2.5 left"
    more = await ask(face, job_id, "cpu=5")
    assert more["what_if"]["reason"]["code"] == "never_fits"
    assert "the largest has 4 cpu" in more["what_if"]["reason"]["message"]
    gone = await ask(face, job_id, "cpu=2&without_worker=name-b")
    assert gone["what_if"]["reason"]["code"] == "lacks_resources"
    assert [near["worker_id"] for near in gone["what_if"]["reason"]["nearest"]] == ["a"]
    await world.cancel_job(taken)


async def test_what_names_nothing_has_room_and_may_be_supposed_to_name_something(
    face: Face, world: World
) -> None:
    await serve(world, "a", cpu=2.0)
    job_id = await world.submit()
    told = await ask(face, job_id, "cpu=8")
    assert told["reason"]["code"] == "in_queue"
    assert told["what_if"]["supposed"] == "with 8 cpu"
    assert told["what_if"]["reason"]["code"] == "never_fits"
    # One that takes whatever comes has room for everything.
    await register(world.ledger, Registration("w1", "one", "h", ("q",)))
    told = await ask(face, job_id, "cpu=8")
    assert told["what_if"]["reason"]["code"] == "in_queue"


async def test_a_process_with_placed_work_has_what_its_book_has_left(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("p", cpu=4.0, book="b")
    await serve(world, "a", cpu=4.0, book="b")
    await world.submit(queue=None, resources={"cpu": 3})
    assert len(await cluster.place()) == 1
    job_id = await world.submit(resources={"cpu": 2})
    told = await ask(face, job_id, "")
    assert "Nearest: worker name-a: 1 of 4 cpu free (needs 2)." in told["lines"]


async def test_what_cannot_be_asked_names_the_field_and_the_remedy(
    face: Face, world: World
) -> None:
    job_id = await world.submit()
    field, message = await refused(face, job_id, "gpu=1")
    assert field == "gpu"
    assert "goes with placed work" in message
    field, message = await refused(face, job_id, "without_worker=z")
    assert field == "without_worker"
    assert "no worker z serves queue q" in message
    await world.cancel_job(job_id)
    field, message = await refused(face, job_id, "cpu=1")
    assert field == "cpu"
    assert "ask this of a task that waits" in message
    assert (await refused(face, job_id, "cpu=0"))[0] == "cpu"
