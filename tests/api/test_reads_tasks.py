"""The routes that read tasks."""

import base64
from typing import Any

import pytest

from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.logs import Stretch, append_logs
from holdfast.operations.register import Registration, register
from holdfast.services.runtime import Runtime
from tests.api.asgi import Exchange
from tests.api.face import Face, heard
from tests.cluster import Cluster
from tests.waiting import eventually
from tests.world import World, fence_of


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def write_log(world: World, claim: Any, offset: int, content: bytes) -> None:
    await append_logs(world.ledger, [Stretch(fence_of(claim), offset, content)])


async def test_tasks_are_listed_by_index_in_pages(face: Face, world: World) -> None:
    job_id = await world.submit([0] * 5)
    found: list[str] = []
    token = ""
    for _ in range(3):
        page = await get(face, f"/api/jobs/{job_id}/tasks?page_size=2{token}")
        found += [task["task_id"] for task in page["tasks"]]
        token = f"&page_token={page['next_page_token']}"
    assert found == [f"{job_id}.{index}" for index in range(5)]
    assert page["next_page_token"] is None


async def test_tasks_are_found_by_state(face: Face, world: World) -> None:
    job_id = await world.submit([0] * 3)
    [claim] = await world.claim(worker="w7")
    await world.start(claim)
    page = await get(face, f"/api/jobs/{job_id}/tasks?state=running")
    [task] = page["tasks"]
    assert (task["task_index"], task["worker_id"]) == (0, "w7")
    page = await get(face, f"/api/jobs/{job_id}/tasks?state=TASK_STATE_PENDING")
    assert [task["task_index"] for task in page["tasks"]] == [1, 2]


async def test_a_task_tells_its_whole_life(face: Face, world: World) -> None:
    job_id = await world.submit(max_retries_failure=1, backoff={"base": 3600, "ceiling": 3600})
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["state"], task["current_attempt_id"]) == ("TASK_STATE_PENDING", -1)
    assert (task["attempts"], task["pending_reason"]) == ([], "waiting in queue q: 0 ahead")

    [claim] = await world.claim()
    await world.start(claim)
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["state"], task["worker_id"]) == ("TASK_STATE_RUNNING", "w1")
    assert [attempt["state"] for attempt in task["attempts"]] == ["TASK_STATE_RUNNING"]

    await world.fail(claim)
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["state"], task["worker_id"], task["error"]) == ("TASK_STATE_PENDING", None, "boom")
    assert task["pending_reason"].startswith("retry due at 2")
    [attempt] = task["attempts"]
    assert (attempt["state"], attempt["worker_id"]) == ("TASK_STATE_FAILED", "w1")
    assert (attempt["error"], attempt["stage"]) == ("boom", "exec")


async def test_a_placed_task_tells_what_its_attempts_were_given_and_used(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1")
    fields: dict[str, Any] = {"max_retries_failure": 1, "backoff": {"base": 3600, "ceiling": 3600}}
    job_id = await world.submit(queue=None, resources={"ports": ["http"]}, **fields)
    [placed] = await cluster.place()
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["worker_id"], task["worker_address"]) == ("w1", "http://w1:7000")
    assert list(task["ports"]) == ["http"]
    assert (task["resource_usage"], task["build_metrics"]) == (None, None)
    assert task["attempts"][0]["ports"] == task["ports"]
    [listed] = (await get(face, f"/api/jobs/{job_id}/tasks"))["tasks"]
    assert listed == task | {"attempts": None}

    usage = {"cpu_seconds": 1.5, "memory_peak_bytes": 4096, "processes_max": 2, "limits": "none"}
    await cluster.end(placed.task_id, "failed", usage=usage, build={"fetch_ms": 12.0})
    task = await get(face, f"/api/tasks/{job_id}.0")
    assert (task["worker_id"], task["worker_address"], task["ports"]) == (None, None, {})
    assert task["resource_usage"] == usage
    assert task["build_metrics"]["fetch_ms"] == 12.0
    [attempt] = (await get(face, f"/api/tasks/{job_id}.0/attempts"))["attempts"]
    assert list(attempt["ports"]) == ["http"]
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


async def test_attempts_are_listed_in_pages(face: Face, world: World) -> None:
    job_id = await world.submit(max_retries_failure=5, backoff={"base": 0, "ceiling": 0})
    for _ in range(3):
        [claim] = await world.claim()
        await world.start(claim)
        await world.fail(claim)
    first = await get(face, f"/api/tasks/{job_id}.0/attempts?page_size=2")
    assert [attempt["attempt_id"] for attempt in first["attempts"]] == [0, 1]
    token = first["next_page_token"]
    rest = await get(face, f"/api/tasks/{job_id}.0/attempts?page_size=2&page_token={token}")
    assert [attempt["attempt_id"] for attempt in rest["attempts"]] == [2]
    assert rest["next_page_token"] is None


async def test_results_are_listed_in_pages(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2, 3])
    for claim in await world.claim(3):
        await world.start(claim)
        await world.succeed(claim, f"[{claim.task_id.task_index}]")
    first = await get(face, f"/api/jobs/{job_id}/results?page_size=2")
    token = first["next_page_token"]
    rest = await get(face, f"/api/jobs/{job_id}/results?page_size=2&page_token={token}")
    found = [*first["results"], *rest["results"]]
    assert [(row["task_id"], row["result"]) for row in found] == [
        (f"{job_id}.{index}", [index]) for index in range(3)
    ]
    assert rest["next_page_token"] is None


@pytest.mark.parametrize("what", ["", "/attempts", "/explain", "/result", "/logs", "/events"])
@pytest.mark.parametrize(("task_id", "status"), [("7.0", 404), ("7", 400), ("7.0.0", 400)])
async def test_a_task_that_is_none_is_not_shown(
    face: Face, what: str, task_id: str, status: int
) -> None:
    said = await face.get(f"/api/tasks/{task_id}{what}")
    assert said.status == status
    assert said.error["message"]


@pytest.mark.parametrize("what", ["tasks", "results", "events"])
async def test_what_belongs_to_no_job_is_not_shown(face: Face, what: str) -> None:
    said = await face.get(f"/api/jobs/7/{what}")
    assert (said.status, said.error["message"]) == (404, "there is no job 7")


async def test_a_result_is_read_at_once(face: Face, world: World) -> None:
    job_id = await world.submit(entrypoint={"pickle": "gASVBAAAAAAAAABLAS4="})
    assert (await get(face, f"/api/tasks/{job_id}.0/result"))["state"] == "TASK_STATE_PENDING"
    [claim] = await world.claim()
    await world.start(claim)
    await world.succeed(claim, '"gASVBAAAAAAAAABLAS4="')
    result = await get(face, f"/api/tasks/{job_id}.0/result")
    assert (result["result"], result["pickled"]) == ("gASVBAAAAAAAAABLAS4=", True)
    assert (result["state"], result["exit_code"]) == ("TASK_STATE_SUCCEEDED", 0)


async def test_a_result_is_waited_for_though_its_job_goes_on(
    face: Face, quiet: Runtime, world: World
) -> None:
    job_id = await world.submit([1, 2])
    waiting = Exchange(face.app, "GET", f"/api/tasks/{job_id}.0/result?wait_ms=60000")
    await eventually(lambda: quiet.doorbells.names("job"))
    [claim] = await world.claim()
    await world.start(claim)
    await world.succeed(claim, "[1]")
    said = await heard(waiting)
    assert (said.json["task_id"], said.json["result"]) == (f"{job_id}.0", [1])


async def test_a_failed_task_has_an_error_for_a_result(face: Face, world: World) -> None:
    job_id = await world.submit(on_exhausted="fail")
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    result = await get(face, f"/api/tasks/{job_id}.0/result?wait_ms=60000")
    assert (result["state"], result["result"]) == ("TASK_STATE_FAILED", None)
    assert (result["error"], result["error_class"]) == ("boom", "PermanentError")


def text_of(chunk: Any) -> bytes:
    return base64.b64decode(chunk["content"])


async def test_a_log_is_read_from_an_offset_on(face: Face, world: World) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await write_log(world, claim, 0, b"hello ")
    await write_log(world, claim, 6, b"world\n")
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs")
    assert (text_of(chunk), chunk["attempt"]) == (b"hello world\n", 0)
    assert (chunk["offset"], chunk["next_offset"], chunk["is_complete"]) == (0, 12, False)
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs?attempt=0&offset=8")
    assert (text_of(chunk), chunk["next_offset"]) == (b"rld\n", 12)


async def test_a_log_that_is_followed_waits_for_more_and_for_its_end(
    face: Face, world: World
) -> None:
    job_id = await world.submit()
    waiting = Exchange(face.app, "GET", f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=60000")
    [claim] = await world.claim()
    await write_log(world, claim, 0, b"one")
    said = await heard(waiting)
    assert (text_of(said.json), said.json["is_complete"]) == (b"one", False)
    target = f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=60000&attempt=0&offset=3"
    waiting = Exchange(face.app, "GET", target)
    await world.start(claim)
    await world.succeed(claim)
    said = await heard(waiting)
    assert (text_of(said.json), said.json["is_complete"]) == (b"", True)


async def test_a_log_that_is_followed_in_vain_says_where_it_stands(
    face: Face, world: World
) -> None:
    job_id = await world.submit()
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=20&offset=0")
    assert (chunk["attempt"], chunk["next_offset"], chunk["is_complete"]) == (-1, 0, False)
    await world.cancel_job(job_id)
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=60000")
    assert (chunk["attempt"], chunk["is_complete"]) == (-1, True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("attempt=-1", "attempt"),
        ("attempt=99999999999", "attempt"),
        ("follow=true&wait_ms=-1", "wait_ms"),
    ],
)
async def test_a_place_that_no_log_has_is_refused(
    face: Face, world: World, query: str, field: str
) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/tasks/{job_id}.0/logs?{query}")
    assert (said.status, said.error["field"]) == (400, field)


async def test_an_attempt_that_never_was_has_no_log(face: Face, world: World) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/tasks/{job_id}.0/logs?attempt=3")
    assert (said.status, said.error["message"]) == (404, f"there is no attempt {job_id}.0.3")
