"""What is known of tasks beyond their rows: accounts of placed work, and what tasks wait for."""

from typing import Any

import pytest

from holdfast.operations.ending.cancel import cancel_job
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


async def test_a_placed_task_tells_what_its_attempts_were_given_and_used(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", gpu=2)
    fields: dict[str, Any] = {"max_retries_failure": 1, "backoff": {"base": 3600, "ceiling": 3600}}
    job_id = await world.submit(queue=None, resources={"ports": ["http"], "gpu": 2}, **fields)
    [placed] = await cluster.place()
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["worker_id"], task["worker_address"]) == ("w1", "http://w1:7000")
    assert list(task["ports"]) == ["http"]
    assert (task["resource_usage"], task["build_metrics"]) == (None, None)
    assert task["attempts"][0]["ports"] == task["ports"]
    assert task["attempts"][0]["devices"] == task["devices"] == ["0", "1"]
    [listed] = (await get(face, f"/api/jobs/{job_id}/tasks"))["tasks"]
    assert listed == task | {"attempts": None}

    usage = {"cpu_seconds": 1.5, "memory_peak_bytes": 4096, "processes_max": 2, "limits": "none"}
    await cluster.end(placed.task_id, "failed", usage=usage, build={"fetch_ms": 12.0})
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["worker_id"], task["worker_address"], task["ports"]) == (None, None, {})
    assert task["devices"] == []
    assert task["resource_usage"] == usage
    assert task["build_metrics"]["fetch_ms"] == 12.0
    [attempt] = (await get(face, f"/api/tasks/{job_id}.0/attempts"))["attempts"]
    assert (list(attempt["ports"]), attempt["devices"]) == (["http"], ["0", "1"])
    assert (attempt["usage"], attempt["build"]["fetch_ms"]) == (usage, 12.0)
    assert task["pending_reason"].startswith("eligible in ")


async def test_the_tasks_of_a_job_share_the_reason_of_their_line(face: Face, world: World) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", cpu=2.0)
    job_id = await world.submit(replicas=50, queue=None)
    assert len(await cluster.place()) == 2
    tasks = (await get(face, f"/api/jobs/{job_id}/tasks?page_size=1000"))["tasks"]
    reasons = [task["pending_reason"] for task in tasks]
    assert reasons[:2] == [None, None]
    assert set(reasons[2:]) == {"1 worker: 1 lacks cpu (need 1, most free 0)"}
    job = await get(face, f"/api/jobs/{job_id}?tasks=true")
    assert [task["pending_reason"] for task in job["tasks"]] == reasons


async def test_a_job_that_is_over_is_not_asked_of_the_scheduler(face: Face, world: World) -> None:
    job_id = await world.submit(replicas=2, queue=None)
    await cancel_job(world.ledger, job_id, "soft", actor="eve")
    tasks = (await get(face, f"/api/jobs/{job_id}/tasks"))["tasks"]
    reasons = {task["pending_reason"] for task in tasks}
    assert reasons == {"its job has ended or is being cancelled"}


async def test_a_task_says_which_jobs_it_waits_for(quiet_face: Face, world: World) -> None:
    others = [await quiet_face.submit() for _ in range(3)]
    one = await quiet_face.submit(depends_on=others[:1])
    many = await quiet_face.submit(depends_on=others)
    placed = await quiet_face.submit(queue=None, depends_on=others[:2])
    for job_id, reason in (
        (one, f"waits for job {others[0]}"),
        (many, f"waits for job {others[0]} and 2 others"),
        (placed, f"waits for job {others[0]} and 1 other"),
    ):
        [task] = (await quiet_face.get(f"/api/jobs/{job_id}/tasks")).json["tasks"]
        assert task["pending_reason"] == reason
    told = (await quiet_face.get(f"/api/tasks/{many}.0/explain")).json
    assert told["reason"]["code"] == "dependencies"
    assert told["reason"]["details"] == {"count": 3, "job_ids": others}
    assert f"It waits: waits for job {others[0]} and 2 others." in told["lines"]
