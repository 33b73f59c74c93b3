"""Why a task stands where it stands, told over its whole life."""

from typing import Any

import pytest

from holdfast.model.ids import TaskId
from holdfast.operations.dead_letters import discard, replay
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from tests.api.face import Face
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def lines_of(face: Face, job_id: int) -> list[str]:
    said = await face.get(f"/api/tasks/{job_id}.0/explain")
    assert said.status == 200, said
    assert said.json["task_id"] == f"{job_id}.0"
    lines: list[str] = said.json["lines"]
    return lines


async def test_a_pending_task_says_what_it_waits_for(face: Face, world: World) -> None:
    await world.submit(priority=1)
    job_id = await world.submit(name="crawl")
    assert (await lines_of(face, job_id))[:2] == [
        f"Task {job_id}.0 of job {job_id} (crawl) is PENDING.",
        "It waits: no worker serves queue q.",
    ]
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    assert "It waits: waiting in queue q: 1 ahead." in await lines_of(face, job_id)
    await pause_queue(world.ledger, "q", actor="eve")
    assert "It waits: queue q is paused by eve." in await lines_of(face, job_id)


async def test_a_running_task_names_its_worker_and_its_lease(face: Face, world: World) -> None:
    job_id = await world.submit()
    [claim] = await world.claim(worker="w7")
    await world.start(claim)
    lines = await lines_of(face, job_id)
    assert lines[1].startswith("Worker w7 holds attempt 0 under a lease until 2")
    assert not any("renewals" in line for line in lines)
    await world.clock.advance(25)
    assert any("missed two renewals" in line for line in await lines_of(face, job_id))


async def test_a_task_that_was_asked_to_stop_says_until_when(face: Face, world: World) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await world.cancel_job(job_id, "soft")
    lines = await lines_of(face, job_id)
    assert any(line.startswith("Its job was cancelled (soft): cancelled") for line in lines)
    assert any(line.startswith("It was asked to stop and has until 2") for line in lines)
    await world.cancel_task(claim.task_id, "hard")
    lines = await lines_of(face, job_id)
    assert any("its process may still live on w1" in line for line in lines)


async def test_failures_are_told_with_their_budgets_and_attempts(face: Face, world: World) -> None:
    job_id = await world.submit(max_retries_failure=1, backoff={"base": 0, "ceiling": 0})
    for _ in range(2):
        [claim] = await world.claim()
        await world.start(claim)
        await world.complete(claim, "failed", error="boom", exit_code=3)
    lines = await lines_of(face, job_id)
    assert "Its last error: boom" in lines
    assert "Failures: 2, up to 1 are retried. Lost workers: 0, up to 5 are retried." in lines
    assert lines[-2].startswith("Attempt 0 on w1: FAILED after 0.")
    assert lines[-1].endswith(" s, exit code 3: boom.")
    letter = "It is a dead letter: exhausted_retries in stage exec; "
    assert letter + "neither replayed nor discarded yet." in lines


@pytest.mark.parametrize("fate", ["replayed", "discarded"])
async def test_the_fate_of_a_dead_letter_is_told(face: Face, world: World, fate: str) -> None:
    job_id = await world.submit([1])
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    if fate == "replayed":
        [replayed] = await replay(world.ledger, [TaskId(job_id, 0)], actor="eve")
        told = f"replayed as job {replayed.job_id}"
    else:
        await discard(world.ledger, [TaskId(job_id, 0)], actor="eve")
        told = "discarded by eve"
    assert any(line.endswith(f"; {told}.") for line in await lines_of(face, job_id))


async def test_of_many_attempts_the_last_are_told(face: Face, world: World) -> None:
    job_id = await world.submit(max_retries_failure=50, backoff={"base": 0, "ceiling": 0})
    for _ in range(23):
        [claim] = await world.claim()
        await world.start(claim)
        await world.fail(claim)
    lines = await lines_of(face, job_id)
    place = lines.index("Of its 23 attempts, these are the last:")
    assert len(lines) - place - 1 == 20
    assert lines[-1].startswith("Attempt 22 on w1: FAILED")


@pytest.mark.parametrize(
    ("task_id", "status", "code"),
    [("7.0", 404, "not_found"), ("7", 400, "invalid"), ("x.y", 400, "invalid")],
)
async def test_a_task_that_is_none_is_not_explained(
    face: Face, task_id: str, status: int, code: str
) -> None:
    said = await face.get(f"/api/tasks/{task_id}/explain")
    error: Any = said.error
    assert (said.status, error["code"]) == (status, code)
