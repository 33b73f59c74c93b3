"""The routes that read a whole job at once."""

from base64 import b64decode
from typing import Any

import pytest

from holdfast.operations.claim import Claim
from holdfast.operations.logs import Stretch, append_logs
from tests.api.face import Face
from tests.world import World, fence_of


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


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


async def say(world: World, claim: Claim, offset: int, content: bytes) -> None:
    await append_logs(world.ledger, [Stretch(fence_of(claim), offset, content)])
    await world.clock.advance(2)


async def test_output_of_a_job_is_followed_to_its_end(face: Face, world: World) -> None:
    job_id = await world.submit([0, 1])
    first, second = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    path = f"/api/jobs/{job_id}/logs"
    nothing: Any = (await face.get(path)).json
    assert (nothing["stretches"], nothing["is_complete"]) == ([], False)
    await say(world, second, 0, b"b\n")
    await say(world, first, 0, b"a\n")
    token = nothing["next_page_token"]
    told: Any = (await face.get(f"{path}?page_token={token}")).json
    assert [(s["task_id"], s["attempt"], s["offset"]) for s in told["stretches"]] == [
        (f"{job_id}.1", 0, 0),
        (f"{job_id}.0", 0, 0),
    ]
    assert [b64decode(s["content"]) for s in told["stretches"]] == [b"b\n", b"a\n"]
    one: Any = (await face.get(f"{path}?task_index=0&page_size=1")).json
    assert one["stretches"] == told["stretches"][1:]
    token = told["next_page_token"]
    waiting: Any = (await face.get(f"{path}?page_token={token}")).json
    assert waiting == {"stretches": [], "next_page_token": token, "is_complete": False}
    await say(world, first, 2, b"more")
    for claim in (first, second):
        await world.succeed(claim)
    await world.clock.advance(2)
    last: Any = (await face.get(f"{path}?page_token={token}")).json
    assert [b64decode(s["content"]) for s in last["stretches"]] == [b"more"]
    assert (last["is_complete"], last["next_page_token"]) == (True, None)


async def test_the_input_of_a_task_is_shown_to_the_letter(face: Face, world: World) -> None:
    job_id, plain = await world.submit([{"n": 1.10}]), await world.submit()
    said = await face.get(f"/api/tasks/{job_id}.0/input")
    assert said.json == {"task_id": f"{job_id}.0", "input": {"n": 1.1}}
    assert (await face.get(f"/api/tasks/{plain}.0/input")).json["input"] is None


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
