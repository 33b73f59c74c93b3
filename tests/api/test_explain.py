"""Why a task stands where it stands, told over its whole life."""

import time
from typing import Any

import msgspec
import pytest

from holdfast.api.convert import to_ms
from holdfast.api.explain import pending_reason
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.dead_letters import discard
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.operations.submitting.replay import replay
from holdfast.rules.limits.gates import Gate
from holdfast.rules.limits.usage import BucketState
from holdfast.rules.placement.scheduler import Reason
from holdfast.store.reads.limits.queues import QueueCondition
from tests.api.face import Face
from tests.api.rows import LATER, NOW, a_job, a_task
from tests.cluster import Cluster
from tests.usage_limits import gate, hold, set_limit
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def lines_of(face: Face, job_id: int) -> list[str]:
    lines: list[str] = (await explained(face, job_id))["lines"]
    return lines


async def explained(face: Face, job_id: int) -> Any:
    said = await face.get(f"/api/tasks/{job_id}.0/explain")
    assert said.status == 200, said
    assert said.json["task_id"] == f"{job_id}.0"
    return said.json


async def test_a_chain_that_stands_still_says_so_and_how_it_goes_on(
    face: Face, world: World
) -> None:
    first = await world.submit(chain="c", on_exhausted="fail")
    second = await world.submit(chain="c", on_failure="block")
    assert f"It waits: waits for job {first}, in chain c." in await lines_of(face, second)
    [claim] = await world.claim()
    await world.complete(claim, "failed", error="broken", error_class="PermanentError")
    await world.run_chores()
    still = f"in chain c, which stands still: job {first} has failed; `holdfast pass {first}`"
    assert any(still in line for line in await lines_of(face, second))
    shown = await face.get(f"/api/jobs/{second}")
    assert still in shown.json["pending_reason"]


SERVED = QueueCondition(NOW, None, True)
RETRY = {"attempt": 1, "last_attempt": 0}
ENDING = {
    "lease_is_ending": True,
    "lease_expires_at": LATER,
    "lease_attempt": 0,
    "lease_worker_id": "w3",
    **RETRY,
}
FITS = Reason("fits", "fits now, next pass", {"fitting": 1})
PLACED = {"queue": None}
SLOTS = UsageLimit(scope="queue", kind="concurrency", most=5)
GATE = Gate("mail", SLOTS, 1, "emails", BucketState(held=5))
HELD = "limit mail of queue emails has too few free slots: 5 of 5 are held"


@pytest.mark.parametrize(
    ("job", "task", "line", "code", "message"),
    [
        ({}, {}, SERVED, "in_queue", "waiting in queue emails"),
        (
            {},
            {},
            SERVED._replace(paused_by="eve"),
            "queue_paused",
            "queue emails is paused by eve",
        ),
        (
            {},
            {},
            SERVED._replace(is_served=False),
            "queue_not_served",
            "no worker serves queue emails",
        ),
        (
            {},
            {},
            SERVED._replace(too_large="the largest has 2 cpu"),
            "never_fits",
            "could never fit on a worker of queue emails: the largest has 2 cpu",
        ),
        ({}, {}, SERVED._replace(gate=GATE), "limit", HELD),
        (
            {},
            {},
            SERVED._replace(gate=GATE, paused_by="eve"),
            "queue_paused",
            "queue emails is paused by eve",
        ),
        ({}, {"eligible_at": LATER}, SERVED, "not_eligible", "not before 2026-03-01T12:01:30Z"),
        (
            {},
            {"eligible_at": LATER, **RETRY},
            SERVED,
            "not_eligible",
            "retry due at 2026-03-01T12:01:30Z",
        ),
        (
            {},
            {"eligible_at": LATER, "error_class": "RetryAfter", **RETRY},
            SERVED,
            "not_eligible",
            "put off until 2026-03-01T12:01:30Z by its own code",
        ),
        (
            {},
            ENDING,
            SERVED,
            "release",
            "last attempt's lease is still ending, until 2026-03-01T12:01:30Z at the latest",
        ),
        (
            {"cancel_mode": "soft"},
            {},
            SERVED,
            "job_ended",
            "its job has ended or is being cancelled",
        ),
        (PLACED, {}, SERVED, "fits", "fits now, next pass"),
        (PLACED, {"eligible_at": LATER}, SERVED, "not_eligible", "eligible in 90 s"),
        (PLACED, {"eligible_at": LATER, **RETRY}, SERVED, "not_eligible", "eligible in 90 s"),
        (
            PLACED,
            {"eligible_at": LATER, "error_class": "RetryAfter", **RETRY},
            SERVED,
            "not_eligible",
            "put off until 2026-03-01T12:01:30Z by its own code",
        ),
        (
            PLACED,
            ENDING,
            SERVED,
            "release",
            "waits for release of attempt 0 on w3, until 2026-03-01T12:01:30Z at the latest",
        ),
    ],
)
def test_a_pending_task_has_a_reason(
    job: dict[str, Any], task: dict[str, Any], line: QueueCondition, code: str, message: str
) -> None:
    reason = pending_reason(a_job(**job), a_task(**task), line, placing=FITS)
    assert reason is not None
    assert (reason.code, reason.message) == (code, message)


@pytest.mark.parametrize("state", [TaskState.RUNNING, TaskState.SUCCEEDED])
def test_a_task_that_does_not_wait_has_no_reason(state: TaskState) -> None:
    assert pending_reason(a_job(), a_task(state=state), SERVED) is None


def test_what_the_scheduler_has_not_seen_yet_joins_the_line() -> None:
    reason = pending_reason(a_job(queue=None), a_task(), SERVED)
    assert reason is not None
    assert (reason.code, reason.message) == ("joining", "joins the line for the next pass")


def test_those_ahead_are_told_where_they_were_counted() -> None:
    def told(ahead: int) -> str:
        reason = pending_reason(a_job(), a_task(), SERVED, ahead=ahead)
        assert reason is not None
        assert reason.details == {"queue": "emails", "ahead": ahead}
        return reason.message

    assert told(3) == "waiting in queue emails: 3 ahead"
    assert told(1000) == "waiting in queue emails: 1000 or more ahead"


async def test_a_placed_task_is_explained_with_numbers(face: Face, world: World) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", cpu=2.0)
    job_id = await world.submit(queue=None, resources={"cpu": 3})
    told = await explained(face, job_id)
    message = "1 worker: 1 lacks cpu (need 3, most free 2); could never fit: the largest has 2 cpu"
    assert told["lines"][1] == f"It waits: {message}."
    assert (told["reason"]["code"], told["reason"]["message"]) == ("never_fits", message)
    assert told["reason"]["details"]["lacks"] == [
        {"workers": 1, "resource": "cpu", "need": 3.0, "most_free": 2.0}
    ]
    task = (await face.get(f"/api/tasks/{job_id}.0")).json
    assert task["pending_reason"] == message
    [listed] = (await face.get(f"/api/jobs/{job_id}/tasks")).json["tasks"]
    assert listed["pending_reason"] == message


async def test_a_placed_task_waits_for_its_release_then_for_its_retry(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("w3")
    fields: dict[str, Any] = {
        "max_retries_preemption": 5,
        "backoff": {"base": 0.0},
        "not_before": time.time() + 3600,
    }
    job_id = await world.submit(queue=None, **fields)
    reason = (await explained(face, job_id))["reason"]
    assert reason["code"] == "not_eligible"
    assert reason["message"] == f"eligible in {reason['details']['seconds']} s"
    await world.clock.advance(reason["details"]["seconds"])
    assert (await explained(face, job_id))["reason"]["code"] == "joining"
    await world.run_chores()
    assert (await explained(face, job_id))["reason"]["message"] == "fits now, next pass"
    [placed] = await cluster.place()
    told = await explained(face, job_id)
    assert told["reason"] is None
    for _ in range(3):
        await cluster.miss("w3")
    reason = (await explained(face, job_id))["reason"]
    assert reason["message"].startswith("waits for release of attempt 0 on w3, until 2")
    assert (reason["code"], reason["details"]["worker_id"]) == ("release", "w3")
    lease = await world.lease(placed.task_id)
    assert lease is not None
    assert reason["details"]["lease_expires_at_ms"] == to_ms(lease["expires_at"])


async def test_a_paced_task_says_how_many_come_before_it(face: Face, world: World) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    job_id = await world.submit([1, 2, 3], start_rate=0.01)
    for index, said in ((0, "Z"), (2, "Z, and 2 before this one")):
        reason = (await face.get(f"/api/tasks/{job_id}.{index}/explain")).json["reason"]
        assert (reason["code"], reason["details"]["before"]) == ("not_in_line", index)
        assert reason["message"].startswith("not in line yet: the next of its job at 2")
        assert reason["message"].endswith(said)
        listed = (await face.get(f"/api/jobs/{job_id}/tasks")).json["tasks"][index]
        assert listed["pending_reason"] == reason["message"]
    await world.run_chores()
    told = [(await face.get(f"/api/tasks/{job_id}.{index}/explain")).json for index in (0, 2)]
    assert [each["reason"]["code"] for each in told] == ["in_queue", "not_in_line"]
    assert told[1]["reason"]["details"]["before"] == 1


async def test_a_finished_task_has_no_reason(face: Face, world: World) -> None:
    job_id = await world.submit()
    await world.cancel_job(job_id)
    assert (await explained(face, job_id))["reason"] is None


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
    assert any(line.startswith("Its job is being stopped (soft): cancelled") for line in lines)
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


def test_a_task_behind_a_limit_says_so_claimed_or_placed() -> None:
    for job in (a_job(), a_job(queue=None)):
        reason = pending_reason(job, a_task(), SERVED, gate=GATE, placing=FITS)
        assert reason is not None
        assert (reason.code, reason.message) == ("limit", HELD)


async def test_the_limit_in_the_way_is_named_with_who_holds_it(face: Face, world: World) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    bucket = await set_limit(world, limit=msgspec.structs.replace(SLOTS, most=2.0))
    [one, two] = await hold(world, bucket, count=2)
    first, last = await gate(world, bucket), await gate(world, bucket, count=2)
    said = await explained(face, last)
    held = f"limit mail of queue q has too few free slots: 2 of 2 are held, by {one} and {two}"
    assert f"It waits: {held}; 1 ahead." in said["lines"]
    assert (said["reason"]["code"], said["reason"]["details"]["limit"]) == ("limit", "mail")
    [task] = (await face.get(f"/api/jobs/{first}/tasks")).json["tasks"]
    assert task["pending_reason"] == f"{held}; 0 ahead"
    both = (await face.get(f"/api/jobs/{last}/tasks")).json["tasks"]
    assert {task["pending_reason"] for task in both} == {held}
    assert (await face.get(f"/api/jobs/{last}")).json["pending_reason"] == f"{held}; 1 ahead"
