"""The first page's route: what is now, what was, and what needs attention."""

from typing import Any

import pytest

from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from tests.api.face import Face, fence
from tests.cluster import Cluster
from tests.limits import set_limit
from tests.steps import to_the_start_of_a_step
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str = "/api/overview") -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def test_an_empty_ledger_has_an_overview_in_which_nothing_is_known(face: Face) -> None:
    found = await get(face)
    assert (found["window_seconds"], found["step_seconds"]) == (3600, 10)
    assert found["tasks"] == {
        "ready": 0, "paused": 0, "unserved": 0, "never_fits": 0, "waiting": 0, "assigned": 0,
        "gated": 0, "awaiting_signal": 0,
        "building": 0, "running": 0, "is_estimate": False,
    }  # fmt: skip
    assert set(found["ended"].values()) == {0}
    assert found["workers"] == {"healthy": 0, "failing": 0, "silent": 0, "lost": 0}
    assert found["attention"] == []
    series = found["series"]
    begins = series.pop("at_ms")
    assert begins == [begins[0] + 10_000 * place for place in range(360)]
    assert begins[-1] <= found["now_ms"] < begins[-1] + 10_000
    assert all(set(values) == {None} for values in series.values())


async def test_it_tells_what_happened_what_is_and_what_to_look_at(face: Face, world: World) -> None:
    await to_the_start_of_a_step(world)
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    failed = [await face.submit(type="mail", max_retries_failure=0) for _ in range(6)]
    for claim in await face.claim(6):
        error = f"no room for row {claim['task_id']}"
        said = await face.complete(claim, "failed", error=error, error_class="PermanentError")
        assert said.status == 200
    await face.submit(inputs=[1, 2, 3], type="fine")
    [running, done] = await face.claim(2)
    await face.beat(running, state="TASK_STATE_RUNNING")
    await face.complete(done, "succeeded")
    await pause_queue(world.ledger, "q", actor="eve")
    await face.runtime.samples.write()
    found = await get(face, "/api/overview?window_seconds=604800")
    assert (found["step_seconds"], len(found["series"]["at_ms"])) == (1800, 336)
    assert found["tasks"]["paused"] == found["tasks"]["running"] == 1
    assert found["tasks"]["ready"] == 0
    assert found["workers"]["failing"] == 1, "six of its seven attempts failed"
    assert {state: count for state, count in found["ended"].items() if count} == {
        "TASK_STATE_SUCCEEDED": 1,
        "TASK_STATE_DEAD_LETTERED": 6,
    }
    assert [(one["kind"], one["severity"], one["subject"]) for one in found["attention"]] == [
        ("failing_jobs", "critical", f"no room for row {failed[-1]}.0"),
        ("dead_letters", "warning", "exhausted_retries"),
        ("queue_stalled", "warning", "q"),
    ]
    group = found["attention"][0]
    assert group["message"].startswith("6 jobs of mail ended with it within the last hour")
    said = await face.get(f"/api/jobs?state=unsuccessful&fingerprint={group['fingerprint']}")
    assert [job["job_id"] for job in said.json["jobs"]] == failed[::-1]
    assert len(failed) == group["count"]
    last = {name: values[-1] for name, values in found["series"].items()}
    assert (last["submitted"], last["succeeded"], last["failed"]) == (9, 1, 0)
    assert (last["dead_lettered"], last["retried"], last["killed"]) == (6, 0, 0)
    assert (last["depth"], last["running"]) == (1, 1)
    assert 0 < last["wait_p50_ms"] <= last["wait_p95_ms"]


async def test_what_stands_in_line_is_counted_by_what_is_in_its_way(
    face: Face, world: World
) -> None:
    cluster = Cluster(world)
    await cluster.add("big", gpu=4)
    await register(world.ledger, Registration("w1", "w", "h", ("served", "closed")))
    for queue, count in (("served", 2), ("closed", 3), ("left", 4), (None, 5)):
        await world.submit(queue=queue, replicas=count)
    await world.submit(queue=None, replicas=6, resources={"gpu": 8})
    await world.submit(queue="served", not_before=32_000_000_000)
    await pause_queue(world.ledger, "closed", actor="eve")
    tasks = (await get(face))["tasks"]
    assert (tasks["ready"], tasks["paused"], tasks["unserved"]) == (2 + 5, 3, 4)
    assert (tasks["never_fits"], tasks["waiting"]) == (6, 1)


async def test_what_waits_beside_the_line_is_told_apart(face: Face, world: World) -> None:
    await set_limit(world.clock, "closed", "queue", 0, in_type="mail")
    await world.submit([1, 2], queue="served", type="mail")
    assert await world.claim(2, queue="served") == []
    await face.submit()
    [claim] = await face.claim()
    await face.post("/internal/signal-wait", {**fence(claim), "name": "go", "timeout": 60})
    await face.complete(claim, "waiting")
    tasks = (await get(face))["tasks"]
    assert (tasks["gated"], tasks["awaiting_signal"], tasks["waiting"]) == (2, 1, 0)


@pytest.mark.parametrize("window", ["599", "604801", "x", "-600"])
async def test_a_window_that_cannot_be_shown_is_refused(face: Face, window: str) -> None:
    said = await face.get(f"/api/overview?window_seconds={window}")
    assert said.status == 400
    assert said.error["field"] == "window_seconds"
