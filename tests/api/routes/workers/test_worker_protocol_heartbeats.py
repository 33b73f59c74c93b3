"""Heartbeats: leases renewed, starts and progress recorded, and what should stop told in time."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from tests.api.asgi import Exchange
from tests.api.face import Face, Said, fence, heard
from tests.waiting import eventually
from tests.world import World

HEARTBEAT = "/internal/heartbeat"


@pytest.fixture
async def claims(quiet_face: Face) -> list[Any]:
    """Three tasks of one job, claimed by w1."""
    await quiet_face.submit(inputs=[1, 2, 3], grace=20.0)
    return await quiet_face.claim(3)


async def beat_all(face: Face, leases: list[Any], **fields: Any) -> Said:
    return await face.post(HEARTBEAT, {"worker_id": "w1", "leases": leases, **fields})


async def listen(face: Face, worker: str = "w1") -> Exchange:
    """Keep a heartbeat waiting, and make sure that it does."""
    body = {"worker_id": worker, "leases": [], "wait_ms": 60_000}
    exchange = face.begin(HEARTBEAT, body)
    await eventually(lambda: worker in face.runtime.doorbells.names("worker"))
    return exchange


def stale(claim: Any) -> Any:
    return {**fence(claim), "lease_token": str(uuid4())}


async def test_one_lease_is_renewed(quiet_face: Face, world: World, claims: list[Any]) -> None:
    await world.clock.advance(10)
    said = await quiet_face.beat(claims[0])
    assert said.status == 200
    [lease] = said.json["leases"]
    assert (lease["task_id"], said.json["cancel"], said.json["drain"]) == (
        claims[0]["task_id"], [], False,
    )  # fmt: skip
    assert lease["lease_expires_at"] > claims[0]["lease_expires_at"]
    assert 25_000 < lease["lease_remaining_ms"] <= 30_000
    row = await world.lease(TaskId(*map(int, claims[0]["task_id"].split("."))))
    assert row is not None
    assert row["expires_at"].isoformat()[:19] == lease["lease_expires_at"][:19]


async def test_many_leases_are_renewed_and_a_lost_one_is_told_apart(
    quiet_face: Face, claims: list[Any]
) -> None:
    leases = [fence(claims[0]), stale(claims[1]), fence(claims[2])]
    said = await beat_all(quiet_face, leases)
    assert said.status == 200
    answers = said.json["leases"]
    assert [answer["task_id"] for answer in answers] == [claim["task_id"] for claim in claims]
    assert [answer.get("error", {}).get("code") for answer in answers] == [
        None, "lease_conflict", None,
    ]  # fmt: skip
    assert "lease_remaining_ms" not in answers[1]
    text = quiet_face.runtime.metrics.render()
    assert b"holdfast_lease_renewals_total 2.0" in text
    assert b"holdfast_lease_conflicts_total 1.0" in text


async def test_a_start_under_a_key_is_answered_as_the_first_time(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    said = {"state": "RUNNING", "idempotency_key": "k"}
    first = await quiet_face.beat(claims[0], **said, progress={"fraction": 0.5})
    await quiet_face.beat(claims[0], progress={"fraction": 0.9})
    await quiet_face.beat(claims[0], **said, progress={"fraction": 0.5})
    shown = await quiet_face.get(f"/api/tasks/{claims[0]['task_id']}")
    assert shown.json["progress"] == 0.9
    await quiet_face.complete(claims[0])
    before = await world.dump()
    again = await quiet_face.beat(claims[0], **said, progress={"fraction": 0.5})
    assert (first.status, again.status) == (200, 200)
    # The first, and the one without a key; repeats renew nothing.
    assert b"holdfast_lease_renewals_total 2.0" in quiet_face.runtime.metrics.render()
    [lease], [repeated] = first.json["leases"], again.json["leases"]
    assert repeated.pop("lease_remaining_ms") <= lease.pop("lease_remaining_ms")
    assert repeated == lease
    for other in ({"state": "BUILDING"}, {"state": "RUNNING", "progress": {"fraction": 0.6}}):
        refused = await quiet_face.beat(claims[0], **said | other)
        assert (refused.status, refused.error["code"]) == (409, "key_reused")
    bare = await quiet_face.beat(claims[1], idempotency_key="k2")
    assert (bare.status, bare.error["field"]) == (400, "idempotency_key")
    assert await world.dump() == before


async def test_a_single_lost_lease_is_a_conflict(quiet_face: Face, claims: list[Any]) -> None:
    for lost in (
        stale(claims[0]),
        {**fence(claims[0]), "attempt": 1},
        {**fence(claims[0]), "task_id": "999999.0"},
    ):
        said = await quiet_face.beat(lost)
        assert (said.status, said.error["code"]) == (409, "lease_conflict")
        assert said.error["details"]["task_id"] == lost["task_id"]
    await quiet_face.complete(claims[0])
    assert (await quiet_face.beat(claims[0])).status == 409


async def test_a_start_is_recorded_once(quiet_face: Face, world: World, claims: list[Any]) -> None:
    job_id = int(claims[0]["job"]["job_id"])
    said = await quiet_face.beat(claims[0], state="TASK_STATE_BUILDING")
    assert said.status == 200
    assert await world.story(job_id, 0) == ["claimed", "building"]
    for _ in range(2):
        leases = [{**fence(claim), "state": "running"} for claim in claims[:2]]
        assert (await beat_all(quiet_face, leases)).status == 200
    assert await world.story(job_id, 0) == ["claimed", "building", "started"]
    assert await world.story(job_id, 1) == ["claimed", "started"]
    assert await world.story(job_id, 2) == ["claimed"]


@pytest.mark.parametrize("state", ["PENDING", "Queued", "TASK_STATE_ASSIGNED"])
async def test_that_it_has_not_begun_is_no_news_and_the_lease_is_renewed(
    quiet_face: Face, world: World, claims: list[Any], state: str
) -> None:
    await quiet_face.beat(claims[0], state="BUILDING")
    await world.clock.advance(10)
    for key in ({}, {"idempotency_key": "k"}):
        said = await quiet_face.beat(claims[0], state=state, **key)
        assert said.status == 200
        assert said.json["leases"][0]["lease_expires_at"] > claims[0]["lease_expires_at"]
    task_id = TaskId(*map(int, claims[0]["task_id"].split(".")))
    assert await world.story(*task_id) == ["claimed", "building"]


async def test_a_start_by_a_stranger_is_a_conflict(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    lost = {**stale(claims[0]), "state": "running"}
    assert (await quiet_face.beat(lost, state="running")).status == 409
    [answer] = (await beat_all(quiet_face, [lost])).json["leases"]
    assert answer["error"]["code"] == "lease_conflict"
    assert await world.story(int(claims[0]["job"]["job_id"]), 0) == ["claimed"]


async def test_a_state_that_cannot_be_reported_is_named(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    for state in ("nonsense", "succeeded"):
        said = await quiet_face.beat(claims[0], state=state)
        assert (said.status, said.error["code"], said.error["field"]) == (400, "invalid", "state")
    [answer] = (await beat_all(quiet_face, [{**fence(claims[0]), "state": "killed"}])).json[
        "leases"
    ]
    assert (answer["error"]["code"], answer["error"]["field"]) == ("invalid", "state")
    assert await world.story(int(claims[0]["job"]["job_id"]), 0) == ["claimed"]


async def test_progress_is_noted(quiet_face: Face, world: World, claims: list[Any]) -> None:
    await quiet_face.beat(claims[0], progress={"fraction": 0.25, "message": "a quarter"})
    leases = [{**fence(claim), "progress": {"fraction": 1}} for claim in claims[1:]]
    await beat_all(quiet_face, leases)
    notes = await world.clock.fetch("select task_index, payload from holdfast.notes order by id")
    assert [tuple(note) for note in notes] == [
        (0, '{"fraction":0.25,"message":"a quarter"}'),
        (1, '{"fraction":1.0,"message":null}'),
        (2, '{"fraction":1.0,"message":null}'),
    ]


BAD_HEARTBEATS: list[tuple[str, Any]] = [
    ("progress.fraction", {"progress": {"fraction": 1.5}}),
    ("progress.fraction", {"progress": {}}),
    ("progress.message", {"progress": {"fraction": 1, "message": "a\x00b"}}),
    ("wait_ms", {"wait_ms": 60_001}),
    ("wait_ms", {"wait_ms": -1}),
    ("extra", {"extra": 1}),
    ("attempt", {"attempt": None}),
    ("attempt", {"attempt": -1}),
    ("lease_token", {"lease_token": None}),
    ("lease_token", {"lease_token": "x"}),
    ("task_id", {"task_id": "7"}),
    ("task_id", {"leases": []}),
    ("worker_id", {"worker_id": "a b"}),
    ("leases[0].attempt", {"leases": [{"task_id": "1.0", "attempt": "x", "lease_token": "y"}]}),
]


async def test_a_bad_heartbeat_names_its_field_and_changes_nothing(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    before = await world.dump()
    for field, fields in BAD_HEARTBEATS:
        said = await quiet_face.beat(claims[0], state="running", **fields)
        told = (said.status, said.error["code"], said.error["field"])
        assert told == (400, "invalid", field), fields
        assert await world.dump() == before
    # Nor is anything of it still on its way: what comes later is written, and it is not.
    await quiet_face.beat(claims[1], state="running")
    job_id = int(claims[0]["job"]["job_id"])
    assert [await world.story(job_id, index) for index in (0, 1)] == [
        ["claimed"], ["claimed", "started"],
    ]  # fmt: skip


async def test_leases_without_number_are_sent_in_parts(quiet_face: Face, claims: list[Any]) -> None:
    said = await beat_all(quiet_face, [fence(claims[0])] * 10_001)
    assert (said.status, said.error["field"]) == (400, "leases")


async def test_a_database_that_is_away_is_not_taken_for_a_lost_lease(
    quiet_face: Face, claims: list[Any], database_url: str
) -> None:
    """A worker that is told of a conflict stops its code; it must not be for an outage."""
    database = quiet_face.runtime.ledger.database
    await database.close()
    try:
        single = await quiet_face.beat(claims[0])
        [lease] = (await beat_all(quiet_face, [fence(claims[1])])).json["leases"]
    finally:
        await database.open()
    assert (single.status, single.error["code"]) == (503, "unavailable")
    assert single.headers["retry-after"] == "1"
    assert lease["error"]["code"] == "unavailable"
    assert b"holdfast_lease_conflicts_total 0.0" in quiet_face.runtime.metrics.render()


# What should stop.


async def test_a_waiting_heartbeat_hears_of_a_cancel_once_and_renewals_say_it_again(
    quiet_face: Face, claims: list[Any]
) -> None:
    waiting = await listen(quiet_face)
    task_id = claims[0]["task_id"]
    said = await quiet_face.post(f"/api/tasks/{task_id}:cancel", {"mode": "soft"})
    assert said.json == {"changed": True}
    await quiet_face.runtime.stops.look()
    told = (await heard(waiting)).json
    [notice] = told["cancel"]
    assert (notice["task_id"], notice["attempt"], notice["mode"]) == (task_id, 0, "soft")
    assert 0 < notice["remaining_ms"] <= 20_000
    assert told["leases"] == []
    again = await listen(quiet_face)
    await quiet_face.runtime.stops.look()
    for _ in range(2):
        renewed = (await quiet_face.beat(claims[0])).json
        assert [(n["task_id"], n["mode"]) for n in renewed["cancel"]] == [(task_id, "soft")]
    assert not again.is_over
    await again.leave()


async def test_a_hard_cancel_leaves_no_time(quiet_face: Face, claims: list[Any]) -> None:
    task_id = claims[0]["task_id"]
    await quiet_face.post(f"/api/tasks/{task_id}:cancel", {"mode": "hard"})
    answer = (await beat_all(quiet_face, [fence(claim) for claim in claims])).json
    assert answer["cancel"] == [{"task_id": task_id, "attempt": 0, "mode": "hard"}]
    assert all("error" not in lease for lease in answer["leases"])


async def test_a_renewal_that_has_something_to_tell_does_not_wait(
    quiet_face: Face, claims: list[Any]
) -> None:
    task_id = claims[0]["task_id"]
    await quiet_face.post(f"/api/tasks/{task_id}:cancel", {"mode": "hard"})
    answer = (await quiet_face.beat(claims[0], wait_ms=60_000)).json
    assert [notice["task_id"] for notice in answer["cancel"]] == [task_id]


async def test_a_job_that_is_cancelled_reaches_the_worker_by_itself(
    face: Face, world: World
) -> None:
    job_id = await face.submit()
    [claim] = await face.claim()
    waiting = await listen(face)
    await face.post(f"/api/jobs/{job_id}:cancel", {"mode": "hard", "reason": "wrong input"})
    [notice] = (await heard(waiting)).json["cancel"]
    assert (notice["task_id"], notice["mode"]) == (claim["task_id"], "hard")
    said = await face.complete(claim, "killed")
    assert said.json == {"results": [{"task_id": claim["task_id"], "accepted": False}]}
    assert await world.job_state(int(job_id)) == TaskState.KILLED


async def test_a_heartbeat_without_news_ends_with_its_time(quiet_face: Face) -> None:
    body = {"worker_id": "w1", "leases": [], "wait_ms": 10}
    said = await heard(quiet_face.begin(HEARTBEAT, body))
    assert said.json == {"leases": [], "cancel": [], "drain": False}
    said = await quiet_face.post(HEARTBEAT, {"worker_id": "w1"})
    assert said.json == {"leases": [], "cancel": [], "drain": False}


async def test_a_worker_that_is_gone_waits_for_nothing(quiet_face: Face) -> None:
    waiting = await listen(quiet_face)
    await waiting.leave()
    assert quiet_face.runtime.doorbells.names("worker") == []


async def test_a_server_that_stops_answers_whoever_waits(quiet_face: Face) -> None:
    waiting = await listen(quiet_face)
    await quiet_face.runtime.stop()
    said = await heard(waiting)
    assert (said.status, said.json["cancel"]) == (200, [])


async def test_draining_is_told_to_whoever_waits_and_to_every_heartbeat(
    quiet_face: Face, claims: list[Any]
) -> None:
    body = {"worker_id": "w1", "name": "worker", "host": "here"}
    await quiet_face.post("/internal/worker-register", body)
    waiting = await listen(quiet_face)
    said = await quiet_face.post("/api/workers/w1:drain", None)
    assert said.json == {"changed": True}
    assert (await heard(waiting)).json["drain"] is True
    for _ in range(2):
        assert (await quiet_face.beat(claims[0])).json["drain"] is True
    assert (await quiet_face.post(HEARTBEAT, {"worker_id": "w2"})).json["drain"] is False


async def test_one_who_waits_is_noticed_by_another_servers_drain(
    face: Face, quiet_face: Face
) -> None:
    body = {"worker_id": "w1", "name": "worker", "host": "here"}
    await quiet_face.post("/internal/worker-register", body)
    waiting = await listen(quiet_face)
    await quiet_face.runtime.stops.note_workers()
    assert (await face.post("/api/workers/w1:drain")).status == 200
    await quiet_face.runtime.stops.note_workers()
    assert (await heard(waiting)).json["drain"] is True


async def test_a_lease_alone_says_who_renews_it(quiet_face: Face) -> None:
    await quiet_face.submit()
    [claim] = await quiet_face.claim()
    said = await quiet_face.post("/internal/heartbeat", fence(claim))
    assert said.status == 200
    assert said.json["leases"][0]["task_id"] == claim["task_id"]
    lost = await quiet_face.post("/internal/heartbeat", {**fence(claim), "attempt": 7})
    assert (lost.status, lost.error["code"]) == (409, "lease_conflict")
    for body in ({}, {"leases": [fence(claim)]}):
        said = await quiet_face.post("/internal/heartbeat", body)
        assert (said.status, said.error["field"]) == (400, "worker_id")
