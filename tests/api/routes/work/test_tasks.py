"""The routes of tasks: lists, one of them and its reasons, its input, its cancel."""

from typing import Any

import pytest

from holdfast.operations.register import Registration, register
from tests.api.face import Face
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


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


async def test_the_input_of_a_task_is_shown_to_the_letter(face: Face, world: World) -> None:
    job_id, plain = await world.submit([{"n": 1.10}]), await world.submit()
    said = await face.get(f"/api/tasks/{job_id}.0/input")
    assert said.json == {"task_id": f"{job_id}.0", "input": {"n": 1.1}}
    assert (await face.get(f"/api/tasks/{plain}.0/input")).json["input"] is None


async def test_one_task_is_cancelled(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit(inputs=[1, 2])
    path = f"/api/tasks/{job_id}.0:cancel"
    assert (await quiet_face.post(path, {})).json == {"changed": True}
    assert (await quiet_face.post(path, {})).json == {"changed": False}
    assert await world.story(int(job_id), 0) == ["killed"]
    assert await world.story(int(job_id), 1) == []


async def test_what_cannot_be_cancelled(quiet_face: Face) -> None:
    job_id = await quiet_face.submit()
    for status, path, body in (
        (404, "/api/jobs/999999:cancel", {}),
        (404, f"/api/tasks/{job_id}.5:cancel", {}),
        (400, "/api/jobs/x:cancel", {}),
        (400, f"/api/jobs/{job_id}.0:cancel", {}),
        (400, f"/api/tasks/{job_id}:cancel", {}),
        (400, f"/api/jobs/{job_id}:cancel", {"mode": "gentle"}),
        (400, f"/api/jobs/{job_id}:cancel", {"reason": "a\x00b"}),
        (413, f"/api/jobs/{job_id}:cancel", {"reason": "x" * 2000}),
    ):
        said = await quiet_face.post(path, body)
        assert said.status == status, path
        assert said.error
    assert len(await quiet_face.claim()) == 1


async def test_an_actor_that_cannot_be_stored_is_named(quiet_face: Face) -> None:
    job_id = await quiet_face.submit()
    said = await quiet_face.post(f"/api/jobs/{job_id}:cancel", {}, holdfast_actor="x" * 257)
    assert (said.status, said.error["field"]) == (413, "Holdfast-Actor")
