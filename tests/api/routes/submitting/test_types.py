"""Types of jobs through the API: their policies, who changed them, and what follows."""

from typing import Any

import pytest

from tests.api.face import Face
from tests.world import World

PATH = "/api/types/work"
POLICY = {
    "defaults": {"lease": 60, "max_retries_failure": 5, "verbose_events": True},
    "limits": {"max_retries_failure": 10},
}


async def test_a_policy_is_set_shown_followed_and_taken_back(
    quiet_face: Face, world: World
) -> None:
    none = await quiet_face.get(PATH)
    assert (none.json["version"], none.json["defaults"], none.json["updated_by"]) == (0, {}, None)
    said = await quiet_face.change("PUT", PATH, POLICY, holdfast_actor="ann")
    assert (said.status, said.json["version"], said.json["updated_by"]) == (200, 1, "ann")
    assert said.json["defaults"]["lease"] == 60.0
    assert (await quiet_face.get(PATH)).json == said.json
    job = await world.job(int(await quiet_face.submit()))
    assert '"max_retries_failure": 5' in job["spec"]
    refused = await quiet_face.post(
        "/api/jobs",
        {"entrypoint": {"function": "app:work"}, "queue": "q", "max_retries_failure": 11},
    )
    assert (refused.status, refused.error["field"]) == (400, "max_retries_failure")
    assert "type work allows; use at most 10" in refused.error["message"]
    for changed in (True, False):
        said = await quiet_face.change("DELETE", PATH, holdfast_actor="bob")
        assert said.json == {"changed": changed}
    history = (await quiet_face.get(f"{PATH}/history?page_size=1")).json
    [last] = history["changes"]
    assert (last["version"], last["actor"], last["after"]) == (2, "bob", None)
    assert last["before"] == {"defaults": POLICY["defaults"], "limits": POLICY["limits"]}
    token = history["next_page_token"]
    history = (await quiet_face.get(f"{PATH}/history?page_size=1&page_token={token}")).json
    assert [(c["version"], c["before"]) for c in history["changes"]] == [(1, None)]


async def test_types_are_listed_by_pages(quiet_face: Face) -> None:
    for name in ("b", "a/b", "c"):
        await quiet_face.submit(type=name)
    await quiet_face.change("PUT", "/api/types/a%2Fb", POLICY)
    found = await quiet_face.list_all("/api/types?page_size=1", "types")
    assert [(each["type"], each["version"]) for each in found] == [("a/b", 1), ("b", 0), ("c", 0)]


@pytest.mark.parametrize(
    ("status", "field", "path", "body"),
    [
        (400, "defaults.leese", PATH, {"defaults": {"leese": 1}}),
        (400, "defaults.lease", PATH, {"defaults": {"lease": 1}}),
        (400, "defaults.max_retries_failure", PATH,
         {"defaults": {"max_retries_failure": 5}, "limits": {"max_retries_failure": 4}}),
        (400, "limits.tasks", PATH, {"limits": {"tasks": 0}}),
        (413, "type", "/api/types/" + "x" * 257, {}),
        (409, None, PATH, {"if_version": 3}),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused_and_changes_nothing(
    quiet_face: Face, status: int, field: str | None, path: str, body: Any
) -> None:
    said = await quiet_face.change("PUT", path, body)
    assert (said.status, said.error.get("field")) == (status, field)
    assert (await quiet_face.get("/api/types")).json["types"] == []


async def test_a_type_without_changes_has_no_history(quiet_face: Face) -> None:
    assert (await quiet_face.get(f"{PATH}/history")).status == 404


async def test_renewals_of_verbose_jobs_are_listed_by_their_names(quiet_face: Face) -> None:
    for verbose in (True, False):
        job_id = await quiet_face.submit(inputs=[1, 2], verbose_events=verbose)
        first, second = await quiet_face.claim(2)
        await quiet_face.beat(first, progress={"fraction": 0.5})
        await quiet_face.beat(second)
        await quiet_face.beat(second)
        for name in ("lease_renewed", "job_lease_renewed", "heartbeat", "job_heartbeat"):
            path = f"/api/jobs/{job_id}/events?type={name}"
            notes = (await quiet_face.get(path)).json["events"]
            assert [note["task_index"] for note in notes] == ([0, 1, 1] if verbose else [])
            assert {note["seq"] for note in notes} <= {-1}
            page = (await quiet_face.get(f"{path}&page_size=2")).json
            assert page["events"] == notes[:2]
            if verbose:
                path += f"&page_size=2&page_token={page['next_page_token']}"
                assert (await quiet_face.get(path)).json["events"] == notes[2:]
        renewed = await quiet_face.get(f"/api/tasks/{job_id}.1/events?type=lease_renewed")
        assert len(renewed.json["events"]) == (2 if verbose else 0)
        assert all(note["payload"]["lease_expires_at_ms"] for note in renewed.json["events"])
        [progress] = (await quiet_face.get(f"/api/jobs/{job_id}/events?type=progress")).json[
            "events"
        ]
        assert progress["payload"]["fraction"] == 0.5
        log = (await quiet_face.get(f"/api/jobs/{job_id}/events")).json["events"]
        assert {event["type"] for event in log} == {"submitted", "claimed", "started"}
        for claim in (first, second):
            await quiet_face.complete(claim)


async def test_a_type_shows_how_long_its_attempts_wait_and_run(
    quiet_face: Face, world: World
) -> None:
    assert (await quiet_face.get(PATH)).json["times"] is None
    await quiet_face.submit(inputs=[1, 2])
    await world.clock.advance(3)
    fine, failing = await quiet_face.claim(2)
    for claim in (fine, failing):
        await quiet_face.beat(claim, state="running")
    await world.clock.advance(20)
    await quiet_face.complete(fine)
    await quiet_face.complete(failing, "failed", error="boom")
    await quiet_face.runtime.samples.write()
    times = (await quiet_face.get(PATH)).json["times"]
    assert (times["attempts"], times["failures"]) == (2, 1)
    assert 2500 < times["wait_p50_ms"] < times["wait_p95_ms"] <= 5000
    assert 10_000 < times["run_p50_ms"] < times["run_p95_ms"] <= 30_000
    [listed] = (await quiet_face.get("/api/types")).json["types"]
    assert listed["times"] == times
    await world.clock.advance(7200)
    assert (await quiet_face.get(PATH)).json["times"] is None
