"""The lists of attempts, of a task and of a job."""

from typing import Any

import pytest

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


async def test_attempts_of_a_job_are_listed_in_pages_and_from_any_task(
    face: Face, world: World
) -> None:
    job_id = await world.submit([0, 1, 2], max_attempts=2, backoff={"base": 0.0})
    first, second, third = sorted(await world.claim(3), key=lambda claim: claim.task_id)
    for claim in (first, second):
        await world.start(claim)
    await world.succeed(first)
    await world.fail(second)
    await world.run_chores()
    [again] = await world.claim(worker="w2")
    assert again.task_id == second.task_id
    path = f"/api/jobs/{job_id}/attempts"
    whole: Any = (await face.get(path)).json
    assert [(row["task_index"], row["attempt_id"], row["state"]) for row in whole["attempts"]] == [
        (0, 0, "TASK_STATE_SUCCEEDED"),
        (1, 0, "TASK_STATE_FAILED"),
        (1, 1, "TASK_STATE_ASSIGNED"),
        (2, 0, "TASK_STATE_ASSIGNED"),
    ]
    done, failed, retried, _ = whole["attempts"]
    assert done["created_at_ms"] <= done["started_at_ms"] <= done["finished_at_ms"]
    assert (retried["worker_id"], retried["started_at_ms"]) == ("w2", None)
    assert (retried["finished_at_ms"], failed["is_worker_failure"]) == (None, False)
    found, token = [], ""
    for _ in range(4):
        page: Any = (await face.get(f"{path}?page_size=1{token}")).json
        found += page["attempts"]
        token = f"&page_token={page['next_page_token']}"
    assert (found, page["next_page_token"]) == (whole["attempts"], None)
    jumped: Any = (await face.get(f"{path}?task_from=1&page_size=1")).json
    assert jumped["attempts"] == [failed]
    on = await face.get(f"{path}?task_from=1&page_token={jumped['next_page_token']}")
    assert on.json["attempts"] == whole["attempts"][2:]
    assert third.attempt == 0


async def test_the_loss_of_a_worker_is_told_of_its_attempt(face: Face, world: World) -> None:
    job_id = await world.submit()
    await world.claim()
    await world.pass_time(60)
    said: Any = (await face.get(f"/api/jobs/{job_id}/attempts")).json
    assert [row["is_worker_failure"] for row in said["attempts"]] == [True]


@pytest.mark.parametrize(
    ("target", "status", "field"),
    [
        ("/api/jobs/7/attempts", 404, None),
        ("/api/jobs/7/logs", 404, None),
        ("/api/tasks/7.0/input", 404, None),
        ("/api/tasks/7/input", 400, "task_id"),
        ("/api/jobs/7/attempts?task_from=-1", 400, "task_from"),
        ("/api/jobs/7/attempts?page_size=1001", 400, "page_size"),
        ("/api/jobs/7/attempts?page_token=x", 400, "page_token"),
        ("/api/jobs/7/logs?task_index=x", 400, "task_index"),
        ("/api/jobs/7/logs?page_token=WzFd", 400, "page_token"),
    ],
)
async def test_what_is_not_there_or_cannot_be_right_is_refused(
    face: Face, target: str, status: int, field: str | None
) -> None:
    said = await face.get(target)
    assert (said.status, said.error.get("field")) == (status, field)


async def test_what_ended_on_a_worker_is_listed_with_its_job(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2], name="resize", type="images", max_attempts=1)
    fine, failing = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    await world.start(fine)
    await world.succeed(fine)
    await world.clock.advance(1)
    await world.start(failing)
    await world.fail(failing)
    page = await get(face, "/api/attempts?worker=w1&page_size=1")
    [attempt] = page["attempts"]
    assert (attempt["task_id"], attempt["attempt_id"]) == (f"{job_id}.1", 0)
    assert (attempt["job_name"], attempt["job_type"]) == ("resize", "images")
    assert (attempt["state"], attempt["error"]) == ("TASK_STATE_FAILED", "boom")
    token = page["next_page_token"]
    rest = await get(face, f"/api/attempts?worker=w1&page_size=1&page_token={token}")
    assert [each["task_id"] for each in rest["attempts"]] == [f"{job_id}.0"]
    page = await get(face, "/api/attempts?worker=w1&unsuccessful=true")
    assert [each["task_id"] for each in page["attempts"]] == [f"{job_id}.1"]
    assert (await get(face, "/api/attempts?worker=w2"))["attempts"] == []
    jobs = await get(face, "/api/jobs?worker=w1")
    assert [job["job_id"] for job in jobs["jobs"]] == [str(job_id)]
    assert (await get(face, "/api/jobs?worker=w2"))["jobs"] == []
    for wrong, field in {
        "/api/attempts": "worker",
        "/api/attempts?worker=": "worker",
        "/api/attempts?worker=w1&page_token=x": "page_token",
        "/api/jobs?worker=a%00b": "worker",
    }.items():
        said = await face.get(wrong)
        assert (said.status, said.error["field"]) == (400, field)
