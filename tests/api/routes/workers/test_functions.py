"""Functions through the API: announced, listed, and their options in the jobs that name them."""

from tests.api.face import Face
from tests.world import World

ADD = {
    "path": "app:add",
    "options": {"queue": "sums", "max_retries_failure": 3},
    "parameters": [{"name": "a", "required": True, "schema": {"type": "integer"}}],
    "doc": "Add.",
}


async def test_functions_are_announced_listed_and_their_jobs_run_as_they_say(
    quiet_face: Face, world: World
) -> None:
    long = f"app.{'x' * 500}:f"
    others = [{"path": "app:bad", "options": {"lease": 1}}, {"path": "app:zero"}, {"path": long}]
    body = {"worker_id": "w", "functions": [ADD, *others]}
    said = await quiet_face.post("/internal/functions", body)
    assert (said.status, said.json["changed"]) == (200, [long, "app:add", "app:zero"])
    assert list(said.json["refused"]) == ["app:bad"]
    listed = await quiet_face.list_all("/api/functions?page_size=1", "functions")
    assert [each["path"] for each in listed] == [long, "app:add", "app:zero"]
    shown = (await quiet_face.get("/api/functions/app%3Aadd")).json
    assert shown == listed[1]
    assert {name: shown[name] for name in ADD} == ADD
    job = {"entrypoint": {"function": "app:add", "args": [1]}}
    for fields, queue in (({}, "sums"), ({"queue": "q"}, "q"), ({"placed": True}, None)):
        job_id = (await quiet_face.post("/api/jobs", job | fields)).json["job_id"]
        stored = await world.job(int(job_id))
        assert (stored["queue"], '"max_retries_failure": 3' in stored["spec"]) == (queue, True)


async def test_what_cannot_be_is_refused_by_its_field(quiet_face: Face) -> None:
    body = {"worker_id": "w", "functions": [{"path": "a:b", "options": {"colour": "red"}}]}
    refused = await quiet_face.post("/internal/functions", body)
    assert (refused.status, refused.error["field"]) == (400, "functions[0].options.colour")
    assert (await quiet_face.get("/api/functions/a%3Ab")).status == 404
    job = {"entrypoint": {"function": "app:add"}, "queue": "q", "placed": True}
    assert (await quiet_face.post("/api/jobs", job)).error["field"] == "placed"
