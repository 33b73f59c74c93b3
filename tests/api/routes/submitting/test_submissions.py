"""Jobs come in: one, a batch, children, and one that was there before."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.operations.submitting import submit
from tests.api.face import Face, heard, lease_header
from tests.world import World

JOB = {"entrypoint": {"function": "app:work"}, "queue": "q"}
NOT_LOOKED_UP = {"spec": None, "is_gang": None, "pending_reason": None}


async def test_a_job_is_taken_in(quiet_face: Face, world: World) -> None:
    said = await quiet_face.post("/api/jobs", {**JOB, "inputs": [1, {"a": [None]}], "name": "n"})
    assert said.status == 201
    job_id = said.json["job_id"]
    assert (said.json["is_new"], said.json["num_tasks"]) == (True, 2)
    job = await world.job(int(job_id))
    assert (job["name"], job["num_tasks"], job["parent_job_id"]) == ("n", 2, None)
    rows = await world.clock.fetch("select input from holdfast.tasks order by task_index")
    assert [row[0] for row in rows] == ["1", '{"a":[null]}']


async def test_who_submits_is_told_how_the_job_stands(quiet_face: Face, world: World) -> None:
    """What is made of the submission alone is what a reader of the ledger finds.

    What it waits for is looked up for readers only.
    """
    before = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    job = JOB | {
        "name": "n", "type": "t", "owner": "eve", "replicas": 3, "priority": 2,
        "labels": {"team": "search", "a": ""}, "depends_on": [before], "trace_id": "7" * 32,
        "correlation_id": "c", "idempotency_key": "k", "queue": "other",
    }  # fmt: skip
    unlike = NOT_LOOKED_UP | {"is_new": True}
    for wanted, header in ((job, lease_header(claim)), (JOB, "")):
        lease = {"holdfast_lease": header} if header else {}
        said = await quiet_face.post("/api/jobs", wanted, **lease)
        shown = await quiet_face.get(f"/api/jobs/{said.json['job_id']}")
        assert said.json == shown.json | unlike
    assert said.json["status_message"] == "Tasks: 1 total, 1 pending"


async def test_a_repeat_and_a_large_job_are_told_as_they_stand_now(
    quiet_face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await quiet_face.submit(idempotency_key="k")
    await quiet_face.claim()
    monkeypatch.setattr(submit, "CHUNK_TASKS_MAX", 1)
    repeat = await quiet_face.post("/api/jobs", JOB | {"idempotency_key": "k"})
    large = await quiet_face.post("/api/jobs", JOB | {"replicas": 2})
    assert (repeat.status, large.status) == (200, 201)
    for said, is_new in ((repeat, False), (large, True)):
        shown = await quiet_face.get(f"/api/jobs/{said.json['job_id']}")
        assert said.json == shown.json | NOT_LOOKED_UP | {"is_new": is_new}
    assert (repeat.json["job_id"], repeat.json["tasks_assigned"]) == (job_id, 1)


async def test_an_input_is_kept_to_the_letter(quiet_face: Face, world: World) -> None:
    text = b'{"entrypoint": {"shell": "true"}, "inputs": [ 1.10 , {"n":  12345678901234567890123}]}'
    assert (await quiet_face.post("/api/jobs", text)).status == 201
    rows = await world.clock.fetch("select input from holdfast.tasks order by task_index")
    assert [row[0] for row in rows] == ["1.10", '{"n":  12345678901234567890123}']


async def test_a_key_seen_before_gives_the_first_job(quiet_face: Face, world: World) -> None:
    first = await quiet_face.post("/api/jobs", {**JOB, "idempotency_key": "k"})
    again = await quiet_face.post("/api/jobs", {**JOB, "idempotency_key": "k"})
    assert (first.status, again.status) == (201, 200)
    assert again.json == {**first.json, "is_new": False}
    other = await quiet_face.post("/api/jobs", {**JOB, "idempotency_key": "k", "priority": 1})
    assert (other.status, other.error["code"]) == (409, "key_reused")
    assert other.error["field"] == "idempotency_key"
    assert other.error["details"]["job_id"] == first.json["job_id"]
    assert await world.count("jobs") == 1


BAD_JOBS: list[tuple[str, Any]] = [
    ("entrypoint", {}),
    ("entrypoint", {"entrypoint": {}}),
    ("entrypoint", {"entrypoint": "python train.py"}),
    ("entrypoint.command[1]", {"entrypoint": {"command": ["ls", 1]}}),
    ("entrypoint.function", {"entrypoint": {"function": "nonsense"}}),
    ("entrypoint.comand", {"entrypoint": {"comand": ["ls"]}}),
    ("priorty", {**JOB, "priorty": 1}),
    ("priority", {**JOB, "priority": "high"}),
    ("priority", {**JOB, "priority": 10**9}),
    ("labels", {**JOB, "labels": {"team": 1}}),
    ("backoff.base", {**JOB, "backoff": {"base": -1}}),
    ("backoff.bse", {**JOB, "backoff": {"bse": 1}}),
    ("queue", {**JOB, "queue": "a b"}),
    ("queue", {**JOB, "queue": ""}),
    ("lease", {**JOB, "lease": 5}),
    ("inputs", {**JOB, "inputs": []}),
    ("inputs", {**JOB, "inputs": 3}),
    ("inputs[1]", {**JOB, "inputs": [1, "\x00"]}),
    ("inputs[0]", b'{"entrypoint": {"shell": "ls"}, "inputs": ["\xff"]}'),
    ("concurrency_key.input", {**JOB, "inputs": [{}], "concurrency_key": {"input": "id"}}),
    ("replicas", {**JOB, "inputs": [1], "replicas": 2}),
    ("replicas", {**JOB, "replicas": 0}),
    ("body", [JOB]),
    ("body", b"null"),
    ("parent_job_id", {**JOB, "parent_job_id": 1}),
]


async def test_a_bad_job_names_its_field_and_stores_nothing(quiet_face: Face, world: World) -> None:
    for field, body in BAD_JOBS:
        said = await quiet_face.post("/api/jobs", body)
        told = (said.status, said.error["code"], said.error["field"])
        assert told == (400, "invalid", field), body
    assert await world.count("jobs") == 0


async def test_an_input_over_the_limit_says_the_limit(quiet_face: Face, world: World) -> None:
    said = await quiet_face.post("/api/jobs", {**JOB, "inputs": [1, "x" * (1 << 20)]})
    assert (said.status, said.error["code"], said.error["field"]) == (413, "too_large", "inputs[1]")
    assert {"size": (1 << 20) + 2, "limit": 1 << 20}.items() <= said.error["details"].items()
    assert await world.count("jobs") == 0


async def test_a_batch_is_taken_in_as_a_whole(quiet_face: Face, world: World) -> None:
    await quiet_face.post("/api/jobs", {**JOB, "idempotency_key": "known"})
    specs = [{**JOB, "inputs": [1, 2]}, {**JOB, "idempotency_key": "known"}, JOB]
    said = await quiet_face.post("/api/jobs:batch", {"specs": specs})
    assert said.status == 201
    assert [(job["is_new"], job["num_tasks"]) for job in said.json["jobs"]] == [
        (True, 2), (False, 1), (True, 1),
    ]  # fmt: skip
    assert await world.count("jobs") == 3
    assert len(await quiet_face.claim(10)) == 4


async def test_one_bad_job_spoils_the_batch(quiet_face: Face, world: World) -> None:
    await quiet_face.post("/api/jobs", {**JOB, "idempotency_key": "known"})
    before = await world.count("jobs")
    for status, field, bad in (
        (400, "queue", {**JOB, "queue": "a b"}),
        (400, "concurrency_key.input", {**JOB, "concurrency_key": {"input": "id"}}),
        (400, "specs[1].extra", {**JOB, "extra": 1}),
        (409, "idempotency_key", {**JOB, "idempotency_key": "known", "priority": 1}),
        (413, "specs", {**JOB, "replicas": 10_001}),
    ):
        said = await quiet_face.post("/api/jobs:batch", {"specs": [JOB, bad]})
        assert (said.status, said.error["field"]) == (status, field)
    empty = await quiet_face.post("/api/jobs:batch", {"specs": []})
    assert (empty.status, empty.error["field"]) == (400, "specs")
    assert await world.count("jobs") == before


async def test_a_batch_wakes_whoever_waits(quiet_face: Face) -> None:
    poll = quiet_face.poll()
    await quiet_face.polling()
    await quiet_face.post("/api/jobs:batch", {"specs": [{**JOB, "queue": "other"}, JOB]})
    status, _, content = await poll.answer()
    assert status == 200
    assert b'"attempt":0' in content


async def test_a_running_task_submits_children_of_its_job(quiet_face: Face, world: World) -> None:
    parent = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    shown = lease_header(claim)
    one = await quiet_face.post("/api/jobs", JOB, holdfast_lease=shown)
    many = await quiet_face.post("/api/jobs:batch", {"specs": [JOB, JOB]}, holdfast_lease=shown)
    children = [one.json["job_id"], *(job["job_id"] for job in many.json["jobs"])]
    assert [(await world.job(int(child)))["parent_job_id"] for child in children] == [
        int(parent)
    ] * 3


async def test_who_may_not_submit_children(quiet_face: Face, world: World) -> None:
    job_id = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    before = await world.count("jobs")
    stranger = {**claim, "lease_token": str(uuid4())}
    said = await quiet_face.post("/api/jobs", JOB, holdfast_lease=lease_header(stranger))
    assert (said.status, said.error["code"]) == (409, "lease_conflict")
    await quiet_face.post(f"/api/tasks/{job_id}.0:cancel", {"mode": "hard"})
    assert (await quiet_face.beat(claim)).status == 200
    said = await quiet_face.post("/api/jobs", JOB, holdfast_lease=lease_header(claim))
    assert (said.status, said.error["code"]) == (409, "lease_conflict")
    assert await world.count("jobs") == before


async def test_a_cancelled_job_takes_no_more_children(quiet_face: Face, world: World) -> None:
    parent = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    await quiet_face.post(f"/api/jobs/{parent}:cancel", {"mode": "soft"})
    for path, body in (("/api/jobs", JOB), ("/api/jobs:batch", {"specs": [JOB]})):
        said = await quiet_face.post(path, body, holdfast_lease=lease_header(claim))
        assert (said.status, said.error["code"]) == (409, "illegal_move")
        assert said.error["details"]["state"] == "cancelled"
    assert await world.count("jobs") == 1


async def test_a_lease_of_the_wrong_shape_is_named(quiet_face: Face, world: World) -> None:
    token = uuid4()
    for shown in (
        "", "1.0", "1.0 0", "1.0 x y", "1 0 a", "1.0 0 nonsense", f"1.0 -1 {token}",
        f"1.0 0 {token} x",
    ):  # fmt: skip
        said = await quiet_face.post("/api/jobs", JOB, holdfast_lease=shown)
        assert (said.status, said.error["field"]) == (400, "Holdfast-Lease"), shown
    assert await world.count("jobs") == 0


async def test_a_job_runs_again_and_whoever_waits_for_work_has_it(
    quiet_face: Face, world: World
) -> None:
    job_id = await quiet_face.submit(inputs=["a", "b"], max_attempts=1, on_exhausted="fail")
    done, failed = await quiet_face.claim(2)
    await quiet_face.complete(done)
    await quiet_face.complete(failed, "failed", error="boom")
    path = f"/api/jobs/{job_id}:rerun"
    dry = await quiet_face.post(path, {"dry_run": True})
    assert dry.json == {"replay_of": job_id, "job_id": None, "num_tasks": 2, "dry_run": True}
    polling = quiet_face.poll()
    await quiet_face.polling()
    asked = {"only_unsuccessful": True, "idempotency_key": "k"}
    said = await quiet_face.post(path, asked, holdfast_actor="ann")
    assert (said.status, said.json["num_tasks"], said.json["replay_of"]) == (200, 1, job_id)
    [claim] = (await heard(polling)).json["claims"]
    assert (claim["job"]["job_id"], claim["input"]) == (said.json["job_id"], failed["input"])
    again = await quiet_face.post(path, asked, holdfast_actor="ann")
    assert again.json == said.json
    other = await quiet_face.post(path, {"idempotency_key": "k"}, holdfast_actor="ann")
    assert (other.status, other.error["code"]) == (409, "key_reused")
    shown = await quiet_face.get(f"/api/jobs/{said.json['job_id']}")
    assert shown.json["replay_of"] == job_id


async def test_a_job_that_cannot_run_again_is_refused(quiet_face: Face) -> None:
    job_id = await quiet_face.submit(replicas=2)
    said = await quiet_face.post(f"/api/jobs/{job_id}:rerun", {"only_unsuccessful": True})
    assert (said.status, said.error["field"]) == (400, "only_unsuccessful")
    live = await quiet_face.submit(inputs=["a"])
    said = await quiet_face.post(f"/api/jobs/{live}:rerun", {"only_unsuccessful": True})
    assert (said.status, said.error["code"]) == (409, "illegal_move")
    assert (await quiet_face.post("/api/jobs/99999:rerun", {})).status == 404


async def test_a_broken_graph_is_resumed_once_per_key(quiet_face: Face, world: World) -> None:
    first = await quiet_face.submit(inputs=["a", "b"], max_attempts=1)
    waiting = await quiet_face.submit(depends_on=[first])
    done, failed = await quiet_face.claim(2)
    await quiet_face.complete(done)
    await quiet_face.complete(failed, "failed", error="boom")
    await world.run_chores()
    path = f"/api/jobs/{waiting}:resume"
    dry = await quiet_face.post(path, {"dry_run": True})
    told = [(job["replay_of"], job["job_id"], job["num_tasks"]) for job in dry.json["jobs"]]
    assert (dry.json["dry_run"], told) == (True, [(first, None, 1), (waiting, None, 1)])
    asked = {"inputs": {f"{first}.1": "mended"}, "idempotency_key": "k"}
    said = await quiet_face.post(path, asked, holdfast_actor="ann")
    assert said.status == 200, said
    [claim] = await quiet_face.claim()
    assert (claim["job"]["job_id"], claim["input"]) == (said.json["jobs"][0]["job_id"], "mended")
    again = await quiet_face.post(path, asked, holdfast_actor="ann")
    assert again.json == said.json
    for other in ({"idempotency_key": "k"}, asked | {"rebind_outputs": True}):
        reused = await quiet_face.post(path, other, holdfast_actor="ann")
        assert (reused.status, reused.error["code"]) == (409, "key_reused")
    told = await world.clock.fetch("select actor from holdfast.events where type = 'replayed'")
    assert [row[0] for row in told] == ["ann", "ann"]
    twice = await quiet_face.post(path, {})
    assert (twice.status, twice.error["code"]) == (409, "illegal_move")
    wrong = await quiet_face.post(path, {"inputs": {"seven": 1}})
    assert (wrong.status, wrong.error["field"]) == (400, "inputs")
    assert (await quiet_face.post("/api/jobs/99999:resume", {})).status == 404


async def test_a_unique_job_is_answered_with_the_one_that_is_there(
    quiet_face: Face, world: World
) -> None:
    first = await quiet_face.post("/api/jobs", JOB | {"unique": {}})
    again = await quiet_face.post("/api/jobs", JOB | {"unique": {}})
    assert (first.status, again.status, again.json["is_new"]) == (201, 200, False)
    assert again.json["job_id"] == first.json["job_id"]
    other = await quiet_face.post("/api/jobs", JOB | {"unique": {"on_conflict": "refuse"}})
    assert (other.status, other.error["code"]) == (409, "not_unique")
    assert other.error["details"] == {"job_id": first.json["job_id"]}
    assert other.error["field"] == "unique"
    assert await world.count("jobs") == 1
