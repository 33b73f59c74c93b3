"""Signals over HTTP: sent, refused, waited for, and shown."""

import pytest

from tests.api.face import Face, fence
from tests.world import World


async def test_a_signal_is_waited_for_and_sent(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    wait = {**fence(claim), "name": "approval", "timeout": 60}
    assert (await quiet_face.post("/internal/signal-wait", wait)).json == {
        "state": "waiting",
        "payload": None,
    }
    await quiet_face.complete(claim, "waiting")
    task = (await quiet_face.get(f"/api/tasks/{job_id}.0")).json
    assert task["waits_for"]["name"] == "approval"
    assert task["waits_for"]["until_ms"] == task["waits_for"]["since_ms"] + 60_000
    assert task["pending_reason"].startswith("waits for signal approval since ")
    assert ", until " in task["pending_reason"]
    explained = (await quiet_face.get(f"/api/tasks/{job_id}.0/explain")).json
    assert explained["reason"]["code"] == "signal"
    assert not any("error" in line for line in explained["lines"])
    assert task["error"] is None
    job = (await quiet_face.get(f"/api/jobs/{job_id}")).json
    assert "waits for signal approval" in job["pending_reason"]

    signal = {"name": "approval", "payload": {"ok": True}, "idempotency_key": "k"}
    for is_repeat in (False, True):
        said = await quiet_face.post(f"/api/jobs/{job_id}/signals", signal)
        assert said.json == {
            "task_id": f"{job_id}.0",
            "name": "approval",
            "number": 1,
            "is_repeat": is_repeat,
        }
    other = await quiet_face.post(f"/api/jobs/{job_id}/signals", {**signal, "payload": 2})
    assert (other.status, other.json["error"]["code"]) == (409, "key_reused")
    [again] = await quiet_face.claim()
    received = await quiet_face.post("/internal/signal-wait", {**wait, **fence(again)})
    assert received.json == {"state": "received", "payload": {"ok": True}}
    actions = (await quiet_face.get("/api/actions")).json["actions"]
    assert [(each["action"], each["subject"]) for each in actions] == [("signal", f"{job_id}.0")]


async def test_signals_that_nobody_has_waited_for_are_explained(quiet_face: Face) -> None:
    job_id = await quiet_face.submit()
    for _ in range(2):
        await quiet_face.post(f"/api/jobs/{job_id}/signals", {"name": "approval"})
    lines = (await quiet_face.get(f"/api/tasks/{job_id}.0/explain")).json["lines"]
    [line] = [line for line in lines if "approval" in line]
    assert line.startswith("It keeps 2 signals approval, since ")


async def test_what_has_ended_refuses_signals(quiet_face: Face) -> None:
    job_id = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    await quiet_face.complete(claim)
    said = await quiet_face.post(f"/api/jobs/{job_id}/signals", {"name": "approval"})
    assert (said.status, said.json["error"]["code"]) == (409, "illegal_move")
    assert "at its end" in said.json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"name": ""}, "name"), ({"name": "a", "task": -1}, "task"), ({"payload": 1}, "name")],
)
async def test_what_is_wrong_is_named(quiet_face: Face, body: object, field: str) -> None:
    job_id = await quiet_face.submit()
    said = await quiet_face.post(f"/api/jobs/{job_id}/signals", body)
    assert said.status == 400
    assert said.json["error"]["field"] == field
