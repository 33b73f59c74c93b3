"""The state machine of document 004: its transitions, leases, dead letters, events and names.

Its two loads, 64 claimers and 1,000 jobs, are `tests/races` and `test_thousand_jobs`.
"""

from itertools import pairwise
from typing import Any

import asyncpg
import pytest

import holdfast as hf
from holdfast.model.submitting.spec import Backoff
from holdfast.model.work.states import TaskState
from holdfast.rules.retry import backoff_delay
from tests.api.face import Face, fence
from tests.audits import assert_audit_is_silent
from tests.worker.claims import a_claim, an_attempt
from tests.world import World

EVENT_TYPES = (
    "job_claimed", "job_started", "job_lease_renewed", "job_heartbeat", "job_succeeded",
    "job_failed", "job_cancelled", "job_dead_lettered", "job_compensated",
)  # fmt: skip
EVENT_FIELDS = {
    "id", "job_id", "type", "ts", "actor", "correlation_id", "cause", "payload", "version",
}  # fmt: skip
LETTER_FIELDS = {
    "reason_code", "last_error", "attempts", "last_owner", "last_lease_expires_at",
    "correlation_id",
}  # fmt: skip
REASONS = (
    "parse_error", "validation_failed", "dependency_unavailable", "timeout", "exhausted_retries",
    "policy_violation", "infrastructure_failure", "compensation_failed",
)  # fmt: skip
METRICS = (
    "claims_total", "claim_conflicts_total", "lease_renewals_total", "lease_expiries_total",
    "retries_total", "failures_total", "dead_letters_total", "run_seconds", "wait_seconds",
)  # fmt: skip


async def events_of(face: Face, job_id: str) -> list[Any]:
    """List what happened to a job and its tasks."""
    return await face.list_all(f"/api/jobs/{job_id}/events", "events")


async def test_each_transition_is_one_event_with_its_actor_reason_and_correlation(
    quiet_face: Face, world: World
) -> None:
    job_id = await quiet_face.submit(
        correlation_id="order-7", max_attempts=2, backoff={"base": 0.0}, on_exhausted="dead_letter"
    )
    for _ in range(2):
        [claim] = await quiet_face.claim()
        await quiet_face.beat(claim, state="RUNNING")
        await quiet_face.complete(claim, "failed", error="boom")
        await world.run_chores()
    events = await events_of(quiet_face, job_id)
    assert [event["type"] for event in events if event["task_index"] == 0] == [
        "claimed", "started", "failed", "retried", "claimed", "started", "failed",
        "dead_lettered",
    ]  # fmt: skip
    assert {event["correlation_id"] for event in events} == {"order-7"}
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    for event in events:
        assert set(event) >= EVENT_FIELDS, event
        assert event["actor"], event
    seqs = [event["seq"] for event in events if event["task_index"] == 0]
    assert all(after == before + 1 for before, after in pairwise(seqs))
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TaskState.RUNNING, TaskState.ASSIGNED),
        (TaskState.SUCCEEDED, TaskState.RUNNING),
        (TaskState.SUCCEEDED, TaskState.PENDING),
        (TaskState.FAILED, TaskState.RUNNING),
    ],
)
async def test_no_transition_goes_backward_whoever_writes_it(
    world: World, before: TaskState, after: TaskState
) -> None:
    await world.submit(max_attempts=1, on_exhausted="fail")
    [claim] = await world.claim()
    await world.start(claim)
    if before == TaskState.SUCCEEDED:
        await world.succeed(claim)
    elif before == TaskState.FAILED:
        await world.fail(claim)
    unchanged = await world.dump()
    with pytest.raises(asyncpg.PostgresError):
        await world.clock.fetch(
            "update holdfast.tasks set state = $1, finished_at = null, seq = seq + 1", int(after)
        )
    assert await world.dump() == unchanged


async def test_a_repeated_request_with_its_key_has_no_side_effects(
    quiet_face: Face, world: World
) -> None:
    spec = {"entrypoint": {"function": "app:work"}, "queue": "q", "idempotency_key": "k"}
    ids = {(await quiet_face.post("/api/jobs", spec)).json["job_id"] for _ in range(2)}
    [job_id] = ids
    [claim] = await quiet_face.claim(idempotency_key="k")
    body = {"worker_id": "w1", **fence(claim), "status": "succeeded", "idempotency_key": "k"}
    said = await quiet_face.post("/internal/task-complete", body)
    before = await world.dump()
    assert (await quiet_face.post("/api/jobs", spec)).json["job_id"] == job_id
    assert await quiet_face.claim(idempotency_key="k") == []
    assert await quiet_face.post("/internal/task-complete", body) == said
    assert await world.dump() == before


async def test_leases_last_30_to_120_seconds_and_are_renewed_at_half_of_it(
    quiet_face: Face,
) -> None:
    spec = {"entrypoint": {"function": "app:work"}, "queue": "q"}
    for lease in (29.9, 120.1):
        said = await quiet_face.post("/api/jobs", {**spec, "lease": lease})
        assert (said.status, said.error["field"]) == (400, "lease")
        assert "use 30.0 to 120.0" in said.error["message"]
    attempt = an_attempt(claim=a_claim(40.0), sent_at=1000.0)
    assert attempt.renew_at == 1020.0


async def test_who_misses_two_renewals_is_orphaned_and_the_next_one_may_claim(
    quiet_face: Face, world: World
) -> None:
    job_id = await quiet_face.submit(max_retries_preemption=1)
    await quiet_face.claim(worker="w1")
    path = f"/api/tasks/{job_id}.0"
    assert not (await quiet_face.get(path)).json["is_orphaned"]
    await world.pass_time(29)
    assert (await quiet_face.get(path)).json["is_orphaned"]
    await world.pass_time(5)
    [claim] = await quiet_face.claim(worker="w2")
    assert claim["attempt"] == 1
    await world.pass_time(35)
    task = (await quiet_face.get(path)).json
    assert task["state"] == "TASK_STATE_DEAD_LETTERED"


def test_retries_back_off_exponentially_with_jitter() -> None:
    backoff = Backoff(base=0.5, factor=2, ceiling=60)
    middle = [backoff_delay(backoff, count, 0.5) for count in range(1, 10)]
    assert middle == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff_delay(backoff, 3, 0.0) < middle[2] < backoff_delay(backoff, 3, 0.9)


async def test_a_soft_cancel_lets_a_worker_end_and_a_hard_one_does_not_wait(
    quiet_face: Face,
) -> None:
    states = []
    for mode in ("soft", "hard"):
        job_id = await quiet_face.submit(grace=60.0)
        [claim] = await quiet_face.claim()
        await quiet_face.post(f"/api/tasks/{job_id}.0:cancel", {"mode": mode})
        said = await quiet_face.beat(claim)
        states.append((await quiet_face.get(f"/api/tasks/{job_id}.0")).json["state"])
        notice = said.json["cancel"][-1]
        assert notice["mode"] == mode
    assert states == ["TASK_STATE_ASSIGNED", "TASK_STATE_KILLED"]


async def test_a_dead_letter_has_all_that_is_needed_to_deal_with_it(quiet_face: Face) -> None:
    job_id = await quiet_face.submit(max_attempts=1, correlation_id="order-7")
    [claim] = await quiet_face.claim()
    await quiet_face.complete(claim, "failed", error="boom", stage="fetch")
    [letter] = await quiet_face.list_all(f"/api/dead-letters?job_id={job_id}", "dead_letters")
    assert set(letter) >= LETTER_FIELDS
    wanted = {
        "reason_code": "exhausted_retries", "last_error": "boom", "attempts": 1,
        "last_owner": "w1", "stage": "fetch", "correlation_id": "order-7",
    }  # fmt: skip
    assert wanted.items() <= letter.items()
    for reason in REASONS:
        assert (await quiet_face.get(f"/api/dead-letters?reason_code={reason}")).status == 200


async def test_events_are_found_by_their_types_and_by_correlation(quiet_face: Face) -> None:
    for order in ("order-8", "order-7"):
        job_id = await quiet_face.submit(correlation_id=order)
        [claim] = await quiet_face.claim()
        await quiet_face.complete(claim, "succeeded")
    for name in EVENT_TYPES:
        said = await quiet_face.get(f"/api/jobs/{job_id}/events?type={name}")
        assert said.status == 200, name
        happened = name in ("job_claimed", "job_started", "job_succeeded")
        assert bool(said.json["events"]) == happened, name
    found = await quiet_face.list_all(
        "/api/events?type=job_succeeded&correlation_id=order-7", "events"
    )
    assert {event["job_id"] for event in found} == {job_id}


async def test_what_is_to_be_measured_is_measured(quiet_face: Face) -> None:
    text = bytes((await quiet_face.get("/metrics")).json).decode()
    for name in METRICS:
        assert f"# TYPE holdfast_{name.removesuffix('_total')}" in text, name


def test_errors_have_the_names_of_the_document() -> None:
    assert issubclass(hf.ValidationError, hf.PermanentError)
    assert not issubclass(hf.TransientError, hf.PermanentError)
    assert str(hf.LeaseConflictError("taken"))
