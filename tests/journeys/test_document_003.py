"""The life of a task in document 003: its requests in their literal form, and its guarantees."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.services.waking.republish import Republisher
from holdfast.services.waking.sqs import SqsPublisher
from holdfast.wire.sqs import queue_name
from tests.api.face import Face, fence
from tests.audits import assert_audit_is_silent
from tests.sqs import Sqs, aws_fixture, sqs_endpoint_fixture, sqs_fixture
from tests.worker.workplace import QUEUE, call, open_workplace
from tests.world import World

__all__ = ["aws_fixture", "sqs_endpoint_fixture", "sqs_fixture"]


async def claim(face: Face, job_id: str, worker: str = "w1") -> Any:
    """Claim the first task of a job by its id, as one who was woken for it."""
    [found] = await face.claim(worker=worker, task_id=f"{job_id}.0")
    return found


async def list_attempts(face: Face, job_id: str) -> list[Any]:
    """List the attempts of the first task of a job."""
    return await face.list_all(f"/api/tasks/{job_id}.0/attempts", "attempts")


async def refuse_claim(face: Face, task_id: str) -> None:
    """See that a task cannot be claimed, and that asking for it has changed nothing."""
    said = await face.post("/internal/task-claim", {"worker_id": "w2", "task_id": task_id})
    assert (said.status, said.error["code"]) == (409, "lease_conflict")


async def test_only_a_queued_task_can_be_claimed(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit()
    claimed = await claim(quiet_face, job_id)
    task = (await quiet_face.get(f"/api/tasks/{job_id}.0")).json
    assert (task["state"], task["worker_id"]) == ("TASK_STATE_ASSIGNED", "w1")
    assert claimed["lease_token"]
    assert datetime.fromisoformat(claimed["lease_expires_at"])
    before = await world.dump()
    await refuse_claim(quiet_face, f"{job_id}.0")
    assert await world.dump() == before
    await quiet_face.complete(claimed, "Completed")
    await refuse_claim(quiet_face, f"{job_id}.0")
    cancelled = await quiet_face.submit()
    await quiet_face.post(f"/api/jobs/{cancelled}:cancel", {"mode": "hard"})
    await refuse_claim(quiet_face, f"{cancelled}.0")


async def test_a_heartbeat_extends_the_lease_of_the_current_attempt_alone(
    quiet_face: Face, world: World
) -> None:
    claimed = await claim(quiet_face, await quiet_face.submit())
    await world.clock.advance(10)
    said = await quiet_face.post("/internal/heartbeat", fence(claimed))
    extended = datetime.fromisoformat(said.json["leases"][0]["lease_expires_at"])
    gained = extended - datetime.fromisoformat(claimed["lease_expires_at"])
    assert gained >= timedelta(seconds=10)
    before = await world.dump()
    stale = fence(claimed) | {"attempt": 1}
    said = await quiet_face.post("/internal/heartbeat", stale)
    assert (said.status, said.error["code"]) == (409, "lease_conflict")
    assert await world.dump() == before


async def test_a_completion_brings_outputs_and_events(quiet_face: Face) -> None:
    assert (await quiet_face.post("/api/datasets", {"name": "events"})).status == 201
    assert (await quiet_face.post("/api/datasets/events/versions", {})).status == 201
    job_id = await quiet_face.submit(outputs=[{"dataset": "events"}])
    claimed = await claim(quiet_face, job_id)
    body = {
        **fence(claimed),
        "status": "Completed",
        "outputs": [{"partition_key": "2026", "uri": "s3://b/2026"}],
        "events": [{"kind": "loaded", "payload": {"rows": 3}}],
    }
    assert (await quiet_face.post("/internal/task-complete", body)).status == 200
    task = (await quiet_face.get(f"/api/tasks/{job_id}.0")).json
    assert task["state"] == "TASK_STATE_SUCCEEDED"
    [event] = await quiet_face.list_all(f"/api/jobs/{job_id}/events?type=user:loaded", "events")
    assert event["payload"]["rows"] == 3


async def test_a_completion_of_a_former_attempt_changes_nothing(
    quiet_face: Face, world: World
) -> None:
    job_id = await quiet_face.submit()
    first = await claim(quiet_face, job_id, "w1")
    await world.pass_time(35)
    second = await claim(quiet_face, job_id, "w2")
    assert (second["task_id"], second["attempt"]) == (first["task_id"], 1)
    before = await world.dump()
    for stale in (fence(first), fence(first) | {"attempt": 1}):
        body = {**stale, "status": "Completed"}
        said = await quiet_face.post("/internal/task-complete", body)
        assert (said.status, said.error["code"]) == (409, "lease_conflict")
    assert await world.dump() == before
    assert (await quiet_face.complete(second, "Completed", worker_id="w2")).status == 200
    await assert_audit_is_silent(world.ledger.database)


async def test_a_retry_is_another_attempt_of_the_same_task_until_there_are_no_more(
    quiet_face: Face, world: World
) -> None:
    job_id = await quiet_face.submit(max_attempts=2, backoff={"base": 10.0}, on_exhausted="fail")
    first = await claim(quiet_face, job_id)
    await quiet_face.complete(first, "Failed", error="boom")
    [tried] = await list_attempts(quiet_face, job_id)
    assert tried["state"] == "TASK_STATE_FAILED"
    task = (await quiet_face.get(f"/api/tasks/{job_id}.0")).json
    assert task["eligible_at_ms"] > task["submitted_at_ms"]
    await refuse_claim(quiet_face, f"{job_id}.0")
    await world.pass_time(30)
    second = await claim(quiet_face, job_id)
    assert (second["task_id"], second["attempt"]) == (f"{job_id}.0", 1)
    await quiet_face.complete(second, "Failed", error="boom")
    job = (await quiet_face.get(f"/api/jobs/{job_id}")).json
    assert (job["state"], job["num_tasks"]) == ("JOB_STATE_FAILED", 1)
    await world.pass_time(30)
    await refuse_claim(quiet_face, f"{job_id}.0")


async def test_a_dead_worker_does_not_block_its_task(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit(max_retries_preemption=1, on_exhausted="fail")
    for worker in ("w1", "w2"):
        await claim(quiet_face, job_id, worker)
        await world.pass_time(35)
    tried = await list_attempts(quiet_face, job_id)
    assert [attempt["error"] for attempt in tried] == ["lease expired"] * 2
    task = (await quiet_face.get(f"/api/tasks/{job_id}.0")).json
    assert task["state"] == "TASK_STATE_WORKER_FAILED"


@pytest.fixture
async def publisher(sqs: Sqs) -> AsyncIterator[SqsPublisher]:
    """The server's end of SQS, and a queue in it."""
    sqs.client.create_queue(QueueName=queue_name(QUEUE, sqs.prefix))
    async with sqs.publisher() as publisher:
        yield publisher


async def test_work_resumes_after_a_restart_though_its_message_is_lost(
    database_url: str, tmp_path: Path, sqs: Sqs, publisher: SqsPublisher
) -> None:
    async with open_workplace(database_url, tmp_path / "1", transports=[publisher]) as workplace:
        task_id = await workplace.submit(call("add", 1))
        await sqs.wait_for_counts(QUEUE, visible=1, held=0)
    sqs.client.purge_queue(QueueUrl=sqs.url(QUEUE))
    async with open_workplace(database_url, tmp_path / "2", transports=[publisher]) as workplace:
        ledger = workplace.server.runtime.ledger
        await Republisher(ledger, publisher, timedelta(0)).run()
        await sqs.wait_for_counts(QUEUE, visible=1, held=0)
        async with sqs.inbox(QUEUE) as inbox:
            [message] = await inbox.receive(1)
        assert str(message.task_id) == task_id
        [claimed] = await workplace.claim()
        assert claimed.task_id == task_id
