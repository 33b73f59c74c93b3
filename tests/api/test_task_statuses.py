"""What is known of tasks beyond their rows: accounts of attempts, and what tasks wait for."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.rules.health import DEAD_AFTER_FAILURES
from tests.api.face import Face, fence
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


async def test_a_claimed_task_tells_what_its_attempt_has_used_and_built(face: Face) -> None:
    job_id = await face.submit()
    [claim] = await face.claim()
    usage = {"cpu_seconds": 1.5, "memory_peak_bytes": 4096, "processes_max": 2, "limits": "none"}
    assert (await face.beat(claim, state="RUNNING", usage=usage)).status == 200
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert task["resource_usage"] == task["attempts"][0]["usage"] == usage
    [listed] = (await get(face, f"/api/jobs/{job_id}/tasks"))["tasks"]
    assert listed["resource_usage"] == usage

    last = usage | {"cpu_seconds": 2.5}
    assert (await face.complete(claim, usage=last, build={"fetch_ms": 12.0})).status == 200
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert task["resource_usage"] == task["attempts"][0]["usage"] == last
    assert task["build_metrics"]["fetch_ms"] == 12.0


async def test_a_report_of_a_lease_that_is_lost_tells_nothing_of_usage(face: Face) -> None:
    job_id = await face.submit()
    [claim] = await face.claim()
    mine, strange = {**fence(claim)}, {**fence(claim), "lease_token": str(uuid4())}
    for lease in (mine | {"usage": {"cpu_seconds": 1}}, strange | {"usage": {"cpu_seconds": 9}}):
        await face.post("/internal/heartbeat", {"worker_id": "w1", "leases": [lease]})
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert task["resource_usage"]["cpu_seconds"] == 1


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


async def waits_for(face: Face, job_id: int) -> str | None:
    """Read what a job says it waits for."""
    reason: str | None = (await face.get(f"/api/jobs/{job_id}")).json["pending_reason"]
    return reason


async def test_a_job_tells_what_its_tasks_in_a_queue_wait_for(
    quiet_face: Face, world: World
) -> None:
    face = quiet_face
    job_id = await world.submit([1, 2, 3], max_retries_failure=1, backoff={"base": 60})
    assert await waits_for(face, job_id) == "no worker serves queue q"
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    assert await waits_for(face, job_id) == "waiting in queue q"
    [running, failing] = await world.claim(2)
    await world.fail(failing)
    reason = await waits_for(face, job_id)
    assert reason is not None
    assert reason.startswith("waiting in queue q; retry due at ")
    [last] = await world.claim()
    reason = await waits_for(face, job_id)
    assert reason is not None
    assert reason.startswith("retry due at "), "nothing of it is in the queue"
    await pause_queue(world.ledger, "q", actor="eve")
    await world.pass_time(100)
    assert await waits_for(face, job_id) == "queue q is paused by eve"
    await world.cancel_job(job_id)
    assert await waits_for(face, job_id) is None
    assert "pending_reason" in (await face.get("/api/jobs")).json["jobs"][0]
    assert {running.task_id.job_id, last.task_id.job_id} == {job_id}


async def test_a_job_tells_which_others_it_waits_for_and_when_its_tasks_come_into_line(
    quiet_face: Face, world: World
) -> None:
    first = await world.submit()
    after = int(await quiet_face.submit(depends_on=[str(first)]))
    assert await waits_for(quiet_face, after) == f"waits for job {first}"
    paced = await world.submit([1, 2, 3], start_rate=0.01)
    await world.run_chores()
    reason = await waits_for(quiet_face, paced)
    assert reason is not None
    assert reason.startswith("no worker serves queue q; not in line yet: the next at ")
    await world.claim(9)
    reason = await waits_for(quiet_face, paced)
    assert reason is not None
    assert reason.startswith("not in line yet: the next at ")


async def test_a_gang_that_has_started_and_waits_again_tells_what_for(
    quiet_face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("a", "b", cpu=2.0)
    gang = await world.submit(
        queue=None,
        replicas=2,
        resources={"cpu": 2.0},
        coscheduling={},
        max_retries_preemption=9,
    )
    assert len(await cluster.place()) == 2
    assert await waits_for(quiet_face, gang) is None
    for _ in range(DEAD_AFTER_FAILURES):
        await cluster.miss("a")
    shown = (await quiet_face.get(f"/api/jobs/{gang}")).json
    assert shown["state"] == "JOB_STATE_RUNNING"
    assert shown["pending_reason"].startswith("waits for release of attempt 0 on ")
    await world.pass_time(200)
    await cluster.answer("b")
    shown = (await quiet_face.get(f"/api/jobs/{gang}")).json
    assert shown["state"] == "JOB_STATE_RUNNING"
    assert "could never fit: all workers have room for 1 of 2" in shown["pending_reason"]
