"""The list of routes: each is found, and where there is none the answer says so."""

import pytest

from holdfast.api.app import ROUTES
from tests.api.asgi import call
from tests.api.face import Face


async def test_where_nothing_is_the_answer_says_so(quiet_face: Face) -> None:
    for path in ("/nothing", "/jobs:x", "/api", "/api/nothing", "/internal/x/y", "/api/jobs/"):
        said = await quiet_face.get(path)
        assert (said.status, said.error["code"]) == (404, "not_found"), path
        assert "/openapi.json" in said.error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/internal/task-claim", "POST"),
        ("PUT", "/api/jobs", "GET, HEAD, POST"),
        ("DELETE", "/api/jobs/7", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("GET", "/api/jobs/7:cancel", "POST"),
        ("GET", "/api/workers/a/b:drain", "POST"),
        ("POST", "/api/jobs/7/tasks", "GET, HEAD"),
        ("OPTIONS", "/api/jobs:batch", "POST"),
        ("TRACE", "/openapi.json", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    quiet_face: Face, method: str, path: str, allow: str
) -> None:
    status, headers, content = await call(quiet_face.app, method, path)
    assert (status, headers["allow"]) == (405, allow)
    assert b"method_not_allowed" in content


async def test_a_head_is_answered_like_a_get(quiet_face: Face) -> None:
    for path in ("/healthz", "/openapi.json", "/api/jobs"):
        status, headers, _ = await call(quiet_face.app, "HEAD", path)
        assert (status, headers["content-type"]) == (200, "application/json")
    assert (await call(quiet_face.app, "HEAD", "/api/jobs/999"))[0] == 404


async def test_a_suffix_is_not_taken_for_a_name(quiet_face: Face) -> None:
    job_id = await quiet_face.submit()
    assert (await quiet_face.post(f"/api/jobs/{job_id}:cancel")).status == 200
    assert (await quiet_face.post(f"/api/jobs/{job_id}:destroy")).status == 405
    assert (await quiet_face.post("/api/queues/q:pause")).status == 200


async def test_every_route_that_is_listed_is_found(face: Face) -> None:
    """An empty request to each: whatever is said, it is not that there is no such route."""
    for route in ROUTES:
        if route.content_type == "text/event-stream":
            continue
        path = route.path.replace("{queue:path}", "q").replace("{worker_id:path}", "w1")
        path = path.replace("{job_id}", "999999").replace("{task_id}", "999999.0")
        path = path.replace("{given}", "999999")
        path = path.replace("{name:path}", "n").replace("{bundle}", "0" * 64)
        path = path.replace("{dataset}", "d").replace("{trigger}", "t").replace("{version}", "1")
        path = path.replace("{type:path}", "t").replace("{function:path}", "m:f")
        path = path.replace("{token}", "ci").replace("{schedule:path}", "s").replace("{limit}", "l")
        assert "{" not in path, path
        status, _, content = await call(face.app, route.method, path)
        assert status != 405, path
        assert b"there is nothing at" not in content, path
        assert status < 500, path


def test_no_two_routes_are_the_same() -> None:
    routes = [(route.method, route.path) for route in ROUTES]
    assert len(routes) == len(set(routes))


async def test_only_http_is_served(quiet_face: Face) -> None:
    with pytest.raises(AssertionError, match="only HTTP"):
        await quiet_face.app({"type": "websocket"}, None, None)
