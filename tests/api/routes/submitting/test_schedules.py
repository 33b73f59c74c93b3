"""Schedules through the API: set, shown, paused, fired by hand, taken back."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.api.convert import to_ms
from holdfast.operations.schedules.fire import fire_due
from tests.api.face import Face
from tests.timetable import HOUR, Timetable, at
from tests.world import World

PATH = "/api/schedules/nightly"
SPEC = {"entrypoint": {"function": "app:work", "args": [1]}, "queue": "q"}
NIGHTLY = {"spec": SPEC, "cron": "0 3 * * *", "tz": "Europe/Berlin", "overlap": "allow"}
MIDNIGHT = at("2030-01-01T00:00")


@pytest.fixture
async def timetable(world: World) -> Timetable:
    """The schedules behind the face, at the beginning of a year."""
    timetable = Timetable(world)
    await timetable.go_to(MIDNIGHT + timedelta(seconds=0.5))
    return timetable


async def test_a_schedule_is_set_shown_fired_and_taken_back(
    quiet_face: Face, timetable: Timetable
) -> None:
    said = await quiet_face.change("PUT", PATH, NIGHTLY, holdfast_actor="ann")
    assert (said.status, said.json["created_by"], said.json["version"]) == (201, "ann", 1)
    assert said.json["spec"] == SPEC
    assert said.json["next_firings_ms"] == [
        to_ms(MIDNIGHT + 2 * HOUR + days * timedelta(days=1)) for days in range(5)
    ]
    again = await quiet_face.change("PUT", PATH, NIGHTLY, holdfast_actor="bob")
    assert (again.status, again.json["version"]) == (200, 1)
    await timetable.go_to(MIDNIGHT + 2 * HOUR)
    await fire_due(timetable.ledger)
    shown = (await quiet_face.get(PATH)).json
    [firing] = shown["last_firings"]
    assert (firing["instant_ms"], firing["outcome"]) == (to_ms(MIDNIGHT + 2 * HOUR), "fired")
    assert firing["job_state"] == "JOB_STATE_PENDING"
    [listed] = await quiet_face.list_all("/api/schedules", "schedules")
    assert listed["runs"] == "app:work"
    assert "spec" not in listed
    assert listed["last_firings"] == [firing]
    for changed in (True, False):
        said = await quiet_face.change("DELETE", PATH)
        assert said.json == {"changed": changed}
    assert (await quiet_face.get(PATH)).status == 404


async def test_a_schedule_is_paused_and_resumed_and_misses_are_shown(
    quiet_face: Face, timetable: Timetable
) -> None:
    await quiet_face.change("PUT", PATH, NIGHTLY)
    for verb, state in (("pause", "paused"), ("resume", "active")):
        assert (await quiet_face.post(f"{PATH}:{verb}", {})).json == {"changed": True}
        assert (await quiet_face.get(PATH)).json["state"] == state
    await timetable.go_to(MIDNIGHT + 50 * HOUR)
    await timetable.go_to(MIDNIGHT + 60 * HOUR)
    await fire_due(timetable.ledger)
    shown = (await quiet_face.get(PATH)).json
    [miss] = shown["last_misses"]
    assert (shown["missed_instants"], miss["instants"]) == (3, 3)
    assert shown["last_missed_ms"] == miss["last_instant_ms"] == to_ms(MIDNIGHT + 50 * HOUR)


async def test_firings_by_hand_are_listed_by_pages(quiet_face: Face, timetable: Timetable) -> None:
    await quiet_face.change("PUT", PATH, NIGHTLY)
    first = await quiet_face.post(f"{PATH}:run-now", {"idempotency_key": "k"})
    again = await quiet_face.post(f"{PATH}:run-now", {"idempotency_key": "k"})
    assert first.json == again.json
    span = {
        "from_ms": to_ms(MIDNIGHT - timedelta(days=3)),
        "until_ms": to_ms(MIDNIGHT),
    }
    told = (await quiet_face.post(f"{PATH}:backfill", span | {"dry_run": True})).json
    assert told == {"instants": 3, "already": 0, "job_ids": [], "dry_run": True}
    made = (await quiet_face.post(f"{PATH}:backfill", span)).json
    assert len(made["job_ids"]) == 3
    found = await quiet_face.list_all(f"{PATH}/firings?page_size=1", "firings")
    assert [each["kind"] for each in found] == ["manual", "backfill", "backfill", "backfill"]
    assert {each["job_id"] for each in found} == {first.json["job_id"], *made["job_ids"]}


@pytest.mark.parametrize(
    ("status", "field", "change"),
    [
        (400, "cron", {"cron": "0 3 * *"}),
        (400, "cron", {"every": 60.0}),
        (400, "tz", {"tz": "Berlin"}),
        (400, "overlap", {"overlap": "both"}),
        (400, "jitter", {"jitter": -1}),
        (400, "spec.idempotency_key", {"spec": SPEC | {"idempotency_key": "k"}}),
        (400, "spec.local_name", {"spec": SPEC | {"local_name": "a"}}),
        (400, "spec.placed", {"spec": SPEC | {"placed": True}}),
        (400, "queue", {"spec": SPEC | {"queue": "?"}}),
        (409, None, {"if_version": 2}),
    ],
)
async def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    quiet_face: Face, status: int, field: str | None, change: dict[str, Any]
) -> None:
    said = await quiet_face.change("PUT", PATH, NIGHTLY | change)
    assert (said.status, said.error.get("field")) == (status, field), said.error
    assert (await quiet_face.get(PATH)).status == 404


async def test_a_placed_job_and_one_with_inputs_come_back_as_they_were_sent(
    quiet_face: Face,
) -> None:
    for fields in ({"inputs": [1, {"a": 2.5}], "queue": "q"}, {"placed": True}):
        spec = {"entrypoint": {"function": "app:work"}} | fields
        said = await quiet_face.change("PUT", PATH, {"spec": spec, "every": 60})
        assert said.json["spec"] == spec
    for entrypoint, runs in (
        ({"command": ["tar", "-x"]}, "tar"),
        ({"shell": "echo secret"}, "shell"),
        ({"pickle": "YQ=="}, "pickled function"),
    ):
        body = {"spec": {"entrypoint": entrypoint, "queue": "q"}, "every": 60}
        assert (await quiet_face.change("PUT", PATH, body)).json["runs"] == runs


async def test_names_may_hold_slashes_and_colons(quiet_face: Face) -> None:
    path = "/api/schedules/team%2Fapp.jobs:nightly"
    assert (await quiet_face.change("PUT", path, NIGHTLY)).json["name"] == "team/app.jobs:nightly"
    assert (await quiet_face.post(f"{path}:pause", {})).json == {"changed": True}
    assert (await quiet_face.get(f"{path}/firings")).json["firings"] == []
    for wrong in ("a%20b", "x" * 201):
        said = await quiet_face.change("PUT", f"/api/schedules/{wrong}", NIGHTLY)
        assert said.error["field"] == "name"


async def test_a_worker_declares_what_its_code_says_and_no_more(
    quiet_face: Face,
) -> None:
    path = "app.jobs:nightly"
    job = {"entrypoint": {"function": path}, "queue": "q"}
    declared = {"function": path, "spec": job, "terms": {"cron": "@daily", "overlap": "queue"}}
    local = declared | {"function": "app.jobs:x", "spec": job | {"local_name": "a"}}
    body = {"worker_id": "w1", "modules": ["app.jobs"], "schedules": [declared, local]}
    said = (await quiet_face.post("/internal/schedules", body)).json
    assert (said["changed"], said["retired"], list(said["refused"])) == ([path], [], ["app.jobs:x"])
    shown = (await quiet_face.get(f"/api/schedules/{path}")).json
    assert (shown["declared_by"], shown["overlap"], shown["state"]) == (path, "queue", "active")
    again = await quiet_face.change("PUT", f"/api/schedules/{path}", NIGHTLY)
    assert (again.status, "declared in code" in again.error["message"]) == (409, True)
    said = (await quiet_face.post("/internal/schedules", body | {"schedules": []})).json
    assert said["retired"] == [path]
    assert (await quiet_face.get(f"/api/schedules/{path}")).json["state"] == "retired"
