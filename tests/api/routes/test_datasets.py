"""The routes of datasets, from the first version to the job that a cut-over starts."""

from typing import Any

import pytest

from tests.api.asgi import call
from tests.api.face import Face, fence
from tests.waiting import eventually

EVENTS = "/api/datasets/events"


@pytest.fixture
async def filled(quiet_face: Face) -> Face:
    """A server with a dataset: version 1 has `a` and `b`, version 2 has `b`, other, and `c`."""
    face = quiet_face
    assert (await face.post("/api/datasets", {"name": "events"})).status == 201
    for entries in (["a", "b"], ["b", "c"]):
        number = (await face.post(f"{EVENTS}/versions", {})).json["version"]
        await face.submit(outputs=[{"dataset": "events"}])
        [claim] = await face.claim()
        outputs = [{"partition_key": key, "uri": f"{key}{number}"} for key in entries]
        assert (await face.complete(claim, outputs=outputs)).json["results"][0]["accepted"]
    return face


async def test_a_dataset_is_created_once_and_listed(quiet_face: Face) -> None:
    asked = {"name": "events", "metadata": {"team": "search"}}
    made = await quiet_face.post("/api/datasets", asked)
    assert (made.status, made.json["current_version"]) == (201, None)
    assert (await quiet_face.post("/api/datasets", asked)).status == 200
    other = await quiet_face.post("/api/datasets", asked | {"metadata": {"team": "ads"}})
    assert (other.status, other.error["code"]) == (409, "illegal_move")
    listed = await quiet_face.get("/api/datasets?name=ev&page_size=1")
    assert [each["name"] for each in listed.json["datasets"]] == ["events"]
    assert (await quiet_face.get(EVENTS)).json["metadata"] == {"team": "search"}
    assert (await quiet_face.get("/api/datasets/others")).status == 404
    assert (await quiet_face.get("/api/datasets/a%20b")).error["field"] == "dataset"


async def test_readers_of_what_is_current_stay_with_its_version(filled: Face) -> None:
    entries = f"{EVENTS}/versions/current/entries?page_size=1"
    assert (await filled.get(entries)).status == 404
    made = await filled.post(f"{EVENTS}:cut-over", {"version": 1, "reason": "first"})
    assert (made.json["previous"], made.json["changed"]) == (None, True)
    first = await filled.get(entries)
    assert (first.json["version"], first.json["entries"][0]["uri"]) == (1, "a1")
    await filled.post(f"{EVENTS}:cut-over", {"version": 2})
    token = first.json["next_page_token"]
    rest = await filled.get(f"{entries}&page_token={token}")
    assert (rest.json["version"], rest.json["entries"][0]["uri"]) == (1, "b1")
    assert rest.json["next_page_token"] is None
    assert (await filled.get(entries)).json["version"] == 2
    wrong = await filled.get(f"{EVENTS}/versions/2/entries?page_token={token}")
    assert wrong.error["field"] == "page_token"
    [last, before] = (await filled.get(f"{EVENTS}/cut-overs")).json["cut_overs"]
    assert (last["version"], last["previous"], before["reason"]) == (2, 1, "first")


async def test_versions_are_compared_and_dropped(filled: Face) -> None:
    found: list[tuple[str, str]] = []
    token = ""
    while True:
        page = await filled.get(f"{EVENTS}:compare?from=1&to=2&page_size=1{token}")
        found += [(each["kind"], each["key"]) for each in page.json["differences"]]
        if page.json["next_page_token"] is None:
            break
        token = f"&page_token={page.json['next_page_token']}"
    assert found == [("removed", "a"), ("changed", "b"), ("added", "c")]
    assert (await filled.post(f"{EVENTS}/versions/1:drop")).json == {"changed": True}
    assert (await filled.post(f"{EVENTS}/versions/1:drop")).json == {"changed": False}
    gone = await filled.get(f"{EVENTS}/versions/1/entries")
    assert (gone.status, gone.error["details"]["state"]) == (409, "dropped")
    states = (await filled.get(f"{EVENTS}/versions")).json["versions"]
    assert [(each["version"], each["state"]) for each in states] == [(2, "open"), (1, "dropped")]
    assert (await filled.post(f"{EVENTS}/versions/current:drop")).error["field"] == "version"
    assert (await filled.get(f"{EVENTS}/versions/x")).error["field"] == "version"
    assert (await filled.get(f"{EVENTS}/versions/2")).json["entries"] is None


async def test_a_repeated_cut_over_is_answered_as_the_first_time(filled: Face) -> None:
    asked = {"version": 1, "idempotency_key": "k"}
    first = await filled.post(f"{EVENTS}:cut-over", asked)
    await filled.post(f"{EVENTS}:cut-over", {"version": 2})
    assert (await filled.post(f"{EVENTS}:cut-over", asked)).json == first.json
    assert (await filled.get(EVENTS)).json["current_version"] == 2
    reused = await filled.post(f"{EVENTS}:cut-over", asked | {"version": 2})
    assert (reused.status, reused.error["code"]) == (409, "key_reused")
    keyed = [
        (await filled.post(f"{EVENTS}/versions", {"idempotency_key": "v"})).json["version"]
        for _ in range(2)
    ]
    assert keyed == [3, 3]


async def test_refused_outputs_name_their_field(filled: Face) -> None:
    await filled.submit(outputs=[{"dataset": "events", "version": 2}])
    [claim] = await filled.claim()
    outputs: list[dict[str, Any]] = [{"partition_key": "b", "uri": "other"}]
    alone = await filled.complete(claim, outputs=outputs)
    assert (alone.status, alone.error["field"]) == (400, "outputs[0].key")
    item = {**fence(claim), "status": "succeeded", "outputs": outputs}
    many = await filled.post("/internal/task-complete", {"worker_id": "w1", "completions": [item]})
    assert many.json["results"][0]["error"]["field"] == "outputs[0].key"
    refused = await filled.post("/api/jobs", {
        "entrypoint": {"function": "app:work"}, "outputs": [{"dataset": "events", "version": 9}],
    })  # fmt: skip
    assert refused.error["field"] == "outputs[0].version"
    assert (await filled.complete(claim)).json["results"][0]["accepted"]


async def test_a_cut_over_starts_a_job(face: Face) -> None:
    await face.post("/api/datasets", {"name": "events"})
    await face.post(f"{EVENTS}/versions", {})
    spec = {"entrypoint": {"function": "app:look"}, "queue": "q", "inputs": [1, 2]}
    path = f"{EVENTS}/triggers/look"
    for status in (201, 200):
        put = await call(face.app, "PUT", path, body={"spec": spec})
        assert put[0] == status
    bad = await call(face.app, "PUT", path, body={"spec": spec | {"local_name": "x"}})
    assert bad[0] == 400
    answer = await face.post(f"{EVENTS}:cut-over", {"version": 1})
    assert answer.json["triggered"] == 1

    async def started() -> Any:
        [trigger] = (await face.get(f"{EVENTS}/triggers")).json["triggers"]
        return trigger["last_job_id"]

    job_id = await eventually(started)
    job = (await face.get(f"/api/jobs/{job_id}")).json
    assert (job["num_tasks"], job["spec"]["environment"]["HOLDFAST_DATASET_VERSION"]) == (2, "1")
    gone = await call(face.app, "DELETE", path)
    assert gone[0] == 200
    assert (await face.get(f"{EVENTS}/triggers")).json["triggers"] == []
