"""The routes of jobs: lists, filters, one job and the wait for it, its graph, its cancel."""

from typing import Any

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.follow_up import follow_up_all
from holdfast.services.runtime import Runtime
from tests.api.asgi import Exchange
from tests.api.face import Face, fence, heard
from tests.waiting import eventually
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def list_ids(face: Face, query: str = "") -> list[str]:
    """List the ids of jobs, page by page."""
    found: list[str] = []
    token = ""
    for _ in range(100):
        said = await face.get(f"/api/jobs?{query}{token}")
        assert said.status == 200, said
        found += [job["job_id"] for job in said.json["jobs"]]
        if said.json["next_page_token"] is None:
            return found
        token = f"&page_token={said.json['next_page_token']}"
    raise AssertionError("the list has no end")


async def finish(world: World, count: int = 1) -> None:
    """Let the next tasks succeed."""
    for claim in await world.claim(count):
        await world.start(claim)
        await world.succeed(claim)


async def test_jobs_are_listed_newest_first_in_pages(face: Face, world: World) -> None:
    job_ids = [str(await world.submit()) for _ in range(5)]
    assert await list_ids(face) == job_ids[::-1]
    assert await list_ids(face, "page_size=2") == job_ids[::-1]


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("state=JOB_STATE_SUCCEEDED", [0]),
        ("state=completed", [0]),
        ("state=completed,queued", [2, 1, 0]),
        ("state=completed&state=failed", [0]),
        ("state=queued&state=unsuccessful&owner=eve", [2]),
        ("state=unsuccessful", []),
        ("state=Queued", [2, 1]),
        ("name=crawl-", [1]),
        ("name=", [2, 1, 0]),
        ("type=mail", [0]),
        ("owner=eve", [2]),
        ("queue=slow", [2]),
        ("label=team%3Dsearch%20and%20ads", [1]),
        ("label=empty%3D", [2]),
        ("label=team%3Dsearch", []),
        ("owner=eve&queue=q", []),
    ],
)
async def test_jobs_are_found_by_what_is_asked_for(
    face: Face, world: World, query: str, places: list[int]
) -> None:
    job_ids = [
        await world.submit(type="mail"),
        await world.submit(name="crawl-1", labels={"team": "search and ads"}),
        await world.submit(owner="eve", queue="slow", labels={"empty": ""}),
    ]
    await finish(world)
    assert await list_ids(face, query) == [str(job_ids[place]) for place in places]


async def test_jobs_are_found_by_when_they_were_submitted(face: Face, world: World) -> None:
    job_ids = []
    for _ in range(3):
        job_ids.append(str(await world.submit()))
        await world.clock.advance(60)
    shown = [(await face.get(f"/api/jobs/{job_id}")).json for job_id in job_ids]
    first, second, third = [job["submitted_at_ms"] for job in shown]
    window = f"submitted_from_ms={first + 1}&submitted_until_ms={third}"
    assert await list_ids(face, window) == [job_ids[1]]
    assert await list_ids(face, f"submitted_from_ms={second}") == [job_ids[2], job_ids[1]]
    assert await list_ids(face, "submitted_until_ms=253402300799999") == job_ids[::-1]


async def test_children_are_found_by_their_parent(face: Face, world: World) -> None:
    parent = await world.submit()
    child = await world.submit_child(parent)
    assert await list_ids(face, f"parent={parent}") == [str(child)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=eaten", "state"),
        ("state=failed,eaten", "state"),
        ("state=failed&state=", "state"),
        ("name=a&name=b", "name"),
        ("fingerprint=eaten", "fingerprint"),
        ("label=team", "label"),
        ("label=%3Dsearch", "label"),
        ("parent=x", "parent"),
        ("submitted_from_ms=5&submitted_until_ms=5", "submitted_until_ms"),
        ("submitted_from_ms=-1", "submitted_from_ms"),
        ("submitted_until_ms=x", "submitted_until_ms"),
        ("submitted_until_ms=null", "submitted_until_ms"),
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("page_size=ten", "page_size"),
        ("page_token=nonsense", "page_token"),
        ("type=a%00b", "type"),
        ("colour=red", "colour"),
        ("type=a&type=b", "type"),
    ],
)
async def test_a_query_that_cannot_be_right_is_refused_by_its_field(
    face: Face, query: str, field: str
) -> None:
    said = await face.get(f"/api/jobs?{query}")
    assert (said.status, said.error["code"], said.error["field"]) == (400, "invalid", field)


async def test_a_filter_longer_than_any_name_is_too_large(face: Face) -> None:
    said = await face.get(f"/api/jobs?name={'x' * 257}")
    assert (said.status, said.error["code"], said.error["field"]) == (413, "too_large", "name")


async def test_a_job_is_shown_whole(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2, 3], name="crawl", labels={"team": "search"})
    [claim] = await world.claim()
    await world.start(claim)
    said = await face.get(f"/api/jobs/{job_id}")
    job: Any = said.json
    assert (said.status, job["job_id"], job["state"]) == (200, str(job_id), "JOB_STATE_RUNNING")
    assert job["status_message"] == "Tasks: 3 total, 1 running, 2 pending"
    assert job["spec"]["entrypoint"] == {"function": "app:work"}
    assert job["labels"] == {"team": "search"}
    assert job["finished_at_ms"] is job["tasks"] is None
    assert "worker_id" not in job


async def test_a_job_is_shown_with_its_tasks_when_asked(face: Face, world: World) -> None:
    job_id = await world.submit([0] * 120)
    said = await face.get(f"/api/jobs/{job_id}?tasks=true")
    tasks: Any = said.json["tasks"]
    assert [task["task_id"] for task in tasks] == [f"{job_id}.{index}" for index in range(100)]
    assert tasks[0]["pending_reason"] == "no worker serves queue q"


@pytest.mark.parametrize(("job_id", "status"), [("7", 404), ("0", 400), ("x", 400), ("7.1", 400)])
async def test_a_job_that_is_none_is_not_shown(face: Face, job_id: str, status: int) -> None:
    said = await face.get(f"/api/jobs/{job_id}")
    assert said.status == status
    assert said.error["code"] == {404: "not_found", 400: "invalid"}[status]


@pytest.mark.parametrize("wait_ms", ["-1", "60001"])
async def test_nobody_waits_for_ever(face: Face, wait_ms: str) -> None:
    said = await face.get(f"/api/jobs/7?wait_ms={wait_ms}")
    assert (said.status, said.error["field"]) == (400, "wait_ms")


def begin_waiting(face: Face, job_id: int) -> Exchange:
    return Exchange(face.app, "GET", f"/api/jobs/{job_id}?wait_ms=60000")


async def test_whoever_waits_for_a_job_hears_of_its_end(
    face: Face, quiet: Runtime, world: World
) -> None:
    job_id = await world.submit([1, 2])
    waiting = [begin_waiting(face, job_id) for _ in range(3)]
    await eventually(lambda: quiet.doorbells.names("job") == [str(job_id)])
    await finish(world)
    assert not any(exchange.is_over for exchange in waiting)
    await finish(world)
    for exchange in waiting:
        assert (await heard(exchange)).json["state"] == "JOB_STATE_SUCCEEDED"
    assert quiet.doorbells.names("job") == []


async def test_a_job_that_has_ended_is_not_waited_for(face: Face, world: World) -> None:
    job_id = await world.submit()
    await finish(world)
    said = await face.get(f"/api/jobs/{job_id}?wait_ms=60000")
    assert said.json["state"] == "JOB_STATE_SUCCEEDED"


async def test_a_wait_that_is_over_tells_how_the_job_stands(face: Face, world: World) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/jobs/{job_id}?wait_ms=30")
    assert (said.status, said.json["state"]) == (200, "JOB_STATE_PENDING")


async def test_a_server_that_stops_sends_home_whoever_waits(
    face: Face, quiet: Runtime, world: World
) -> None:
    job_id = await world.submit()
    waiting = begin_waiting(face, job_id)
    await eventually(lambda: quiet.doorbells.names("job"))
    await quiet.stop()
    assert (await heard(waiting)).json["state"] == "JOB_STATE_PENDING"


async def test_whoever_goes_away_is_not_waited_for(
    face: Face, quiet: Runtime, world: World
) -> None:
    job_id = await world.submit()
    waiting = begin_waiting(face, job_id)
    await eventually(lambda: quiet.doorbells.names("job"))
    await waiting.leave()
    assert quiet.doorbells.names("job") == []


async def test_a_job_that_ends_through_another_server_is_noticed(
    runtime: Runtime, world: World
) -> None:
    """Here the world writes with a ledger of its own; the server at work looks for itself."""
    job_id = await world.submit()
    waiting = begin_waiting(Face(runtime), job_id)
    await eventually(lambda: runtime.doorbells.names("job"))
    await finish(world)
    assert (await heard(waiting)).json["state"] == "JOB_STATE_SUCCEEDED"


async def test_a_job_is_cancelled_once(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit(inputs=[1, 2])
    path = f"/api/jobs/{job_id}:cancel"
    said = await quiet_face.post(path, {"mode": "hard", "reason": "wrong"}, holdfast_actor="ann")
    assert said.json == {"changed": True}
    assert (await quiet_face.post(path, {"mode": "hard"})).json == {"changed": False}
    await world.run_chores()
    assert await world.job_state(int(job_id)) == TaskState.KILLED
    [event] = await world.clock.fetch(
        "select actor from holdfast.events where type = 'cancel_requested'"
    )
    assert event["actor"] == "ann"


async def test_a_cancel_under_a_key_is_answered_as_the_first_time(quiet_face: Face) -> None:
    job_id = await quiet_face.submit(inputs=[1, 2])
    for an_id in (f"tasks/{job_id}.0", f"jobs/{job_id}"):
        path, body = f"/api/{an_id}:cancel", {"mode": "hard", "idempotency_key": an_id}
        for _ in range(2):
            assert (await quiet_face.post(path, body)).json == {"changed": True}
        other = await quiet_face.post(path, {**body, "mode": "soft"})
        assert (other.status, other.error["details"]["request"]) == (409, "cancel")
        bob = await quiet_face.post(path, body, holdfast_actor="bob")
        assert bob.json == {"changed": False}  # whose keys are his own


async def test_a_cancel_without_a_body_is_soft(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    assert (await quiet_face.post(f"/api/jobs/{job_id}:cancel")).json == {"changed": True}
    assert (await world.job(int(job_id)))["cancel_mode"] == "soft"
    await world.run_chores()
    [notice] = (await quiet_face.beat(claim)).json["cancel"]
    assert notice["mode"] == "soft"


async def test_a_graph_is_read_with_its_states_and_conditions(
    quiet_face: Face, world: World
) -> None:
    specs = [
        {"entrypoint": {"function": "app:work"}, "queue": "q", "local_name": "first"},
        {
            "entrypoint": {"function": "app:work"},
            "queue": "q",
            "name": "second",
            "depends_on": [{"job": "first", "condition": "ended"}],
        },
    ]
    said = await quiet_face.post("/api/jobs:batch", {"specs": specs})
    first, second = (job["job_id"] for job in said.json["jobs"])
    found = (await quiet_face.get(f"/api/jobs/{second}/graph")).json
    assert found == {
        "job_id": second,
        "nodes": [
            {
                "job_id": first,
                "name": "work",
                "type": "work",
                "state": "JOB_STATE_PENDING",
                "graph_id": first,
                "compensates_job_id": None,
            },
            {
                "job_id": second,
                "name": "second",
                "type": "second",
                "state": "JOB_STATE_PENDING",
                "graph_id": first,
                "compensates_job_id": None,
            },
        ],
        "edges": [{"from": first, "to": second, "condition": "ended", "holds": None}],
        "truncated": False,
    }
    missing = await quiet_face.get("/api/jobs/99999/graph")
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    assert (await quiet_face.get("/api/jobs/x/graph")).status == 400


async def test_what_tasks_add_up_to_is_told_where_it_is_asked_for(face: Face) -> None:
    job_id = await face.submit(max_attempts=2, backoff={"base": 0.0})
    for status in ("failed", "succeeded"):
        [claim] = await face.claim()
        usage = {"cpu_seconds": 2.5, "memory_peak_bytes": 1000 + claim["attempt"]}
        ended = fence(claim) | {"status": status, "usage": usage, "start_reported": False}
        if status == "succeeded":
            ended |= {"result": {"rows": 3}}
        said = await face.post(
            "/internal/task-complete", {"worker_id": "w1", "completions": [ended]}
        )
        assert said.status == 200, said
    plain = (await face.get(f"/api/jobs/{job_id}")).json
    names = ("failure_count", "preemption_count", "ports", "resource_usage", "build_metrics")
    assert [plain[name] for name in (*names, "serialized_result")] == [None] * 6
    told = (await face.get(f"/api/jobs/{job_id}?totals=true&tasks=true")).json
    assert [told[name] for name in names[:3]] == [1, 0, {}]
    assert told["resource_usage"]["cpu_seconds"] == 5.0
    assert told["resource_usage"]["memory_peak_bytes"] == 1001
    assert (told["serialized_result"], len(told["tasks"])) == ({"rows": 3}, 1)
    assert (await face.get(f"/api/jobs/{job_id}?totals=perhaps")).error["field"] == "totals"


async def test_a_job_that_was_ended_by_another_names_it_and_the_root_cause(
    face: Face, world: World
) -> None:
    first = await world.submit(name="extract", max_attempts=1)
    second = await world.submit(depends_on=[{"job": str(first)}])
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim)
    await follow_up_all(world.ledger)
    job = (await face.get(f"/api/jobs/{second}")).json
    needed = "and this one needed it to have succeeded"
    assert (job["state"], job["cancelled_by"]) == ("JOB_STATE_KILLED", None)
    assert job["error"] == f"job {first} ended DEAD_LETTERED, {needed}"
    assert job["causes"] == [
        {
            "kind": "dependency",
            "message": f"job {first} (extract) ended DEAD_LETTERED, {needed}",
            "job_id": str(first),
            "task_id": None,
            "actor": None,
        },
        {
            "kind": "task",
            "message": f"task {first}.0 ended DEAD_LETTERED: boom",
            "job_id": str(first),
            "task_id": f"{first}.0",
            "actor": None,
        },
    ]
    # A job without an error of its own has that of what ended it.
    third = await world.submit(replicas=2)
    body = {"mode": "hard", "reason": "stuck"}
    await face.post(f"/api/tasks/{third}.1:cancel", body)
    await follow_up_all(world.ledger)
    job = (await face.get(f"/api/jobs/{third}")).json
    [cause] = job["causes"]
    assert (
        job["error"] == cause["message"] == f"task {third}.1 was killed by {cause['actor']}: stuck"
    )
    # One that is being stopped says who asked for it, and has no error yet.
    fourth = await world.submit()
    fifth = await world.submit(depends_on=[str(fourth)])
    claim = await world.claim_by_id(TaskId(fourth, 0))
    await world.start(claim)
    await face.post(f"/api/jobs/{fourth}:cancel", {"mode": "soft", "reason": "late"})
    job = (await face.get(f"/api/jobs/{fourth}")).json
    [cause] = job["causes"]
    assert (job["error"], job["cancelled_by"]) == (None, cause["actor"])
    # Nobody has cancelled what waited for it.
    await world.complete(claim, "killed")
    await follow_up_all(world.ledger)
    job = (await face.get(f"/api/jobs/{fifth}")).json
    assert [each["kind"] for each in job["causes"]] == ["dependency", "cancel"]
    assert job["cancelled_by"] is None
