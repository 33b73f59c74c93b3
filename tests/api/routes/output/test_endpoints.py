"""Endpoints through the API: published by a running task, looked up by anybody."""

from typing import Any
from uuid import uuid4

import pytest

from tests.api.face import Face, Said, fence
from tests.world import World

REGISTER, REMOVE = "/internal/endpoint-register", "/internal/endpoint-remove"


@pytest.fixture
async def claims(quiet_face: Face) -> list[Any]:
    """Two tasks of one job, claimed by w1."""
    await quiet_face.submit(inputs=[1, 2])
    return await quiet_face.claim(2)


async def register(face: Face, claim: Any, name: str = "db", **fields: Any) -> Said:
    body = {**fence(claim), "name": name, "address": "host:1", **fields}
    return await face.post(REGISTER, body)


async def remove(face: Face, claim: Any, name: str = "db") -> Said:
    return await face.post(REMOVE, {**fence(claim), "name": name})


async def test_what_is_published_is_answered_found_and_listed(
    quiet_face: Face, claims: list[Any]
) -> None:
    said = await register(quiet_face, claims[0], "models/ranker", metadata={"scheme": "http"})
    assert said.status == 200
    published = said.json
    assert published.pop("registered_at_ms") > 0
    assert published == {
        "name": "models/ranker",
        "address": "host:1",
        "task_id": claims[0]["task_id"],
        "attempt": 0,
        "metadata": {"scheme": "http"},
    }
    found = await quiet_face.get("/api/endpoints/models/ranker")
    assert (found.status, found.json["address"]) == (200, "host:1")
    [listed] = (await quiet_face.get("/api/endpoints")).json["endpoints"]
    assert listed == found.json


async def test_a_slash_in_a_name_may_be_escaped(quiet_face: Face, claims: list[Any]) -> None:
    await register(quiet_face, claims[0], "a/../b")
    assert (await quiet_face.get("/api/endpoints/a%2F..%2Fb")).status == 200


async def test_metadata_comes_back_as_it_was_given(quiet_face: Face, claims: list[Any]) -> None:
    given = {"n": [1, -0.5, 1e20, 2**70, None, True], "ü": {"deep": "\u2028"}}
    said = await register(quiet_face, claims[0], metadata=given)
    assert said.json["metadata"] == given
    assert (await register(quiet_face, claims[0])).json["metadata"] is None
    huge = await register(quiet_face, claims[0], metadata={"n": 1e308})
    assert float(huge.json["metadata"]["n"]) == 1e308


async def test_a_taken_name_is_a_conflict_that_says_who_has_it(
    quiet_face: Face, claims: list[Any]
) -> None:
    await register(quiet_face, claims[0])
    said = await register(quiet_face, claims[1])
    assert (said.status, said.error["code"]) == (409, "illegal_move")
    assert f"held by attempt {claims[0]['task_id']}.0" in said.error["message"]


async def test_a_stale_attempt_is_a_conflict(quiet_face: Face, claims: list[Any]) -> None:
    await register(quiet_face, claims[0])
    stranger = {**claims[0], "lease_token": str(uuid4())}
    for call in (register, remove):
        said = await call(quiet_face, stranger)
        assert (said.status, said.error["code"]) == (409, "lease_conflict")
    await quiet_face.complete(claims[0])
    said = await register(quiet_face, claims[0])
    assert (said.status, said.error["code"]) == (409, "lease_conflict")
    assert (await quiet_face.get("/api/endpoints/db")).status == 404


async def test_what_is_removed_is_not_found(quiet_face: Face, claims: list[Any]) -> None:
    await register(quiet_face, claims[0])
    assert (await remove(quiet_face, claims[1])).json == {"changed": False}
    assert (await remove(quiet_face, claims[0])).json == {"changed": True}
    said = await quiet_face.get("/api/endpoints/db")
    assert (said.status, said.error["message"]) == (404, "there is no endpoint db")


async def test_a_list_comes_in_pages(quiet_face: Face, claims: list[Any]) -> None:
    for name in ("a/1", "a/2", "a/3", "b"):
        await register(quiet_face, claims[0], name)
    found: list[str] = []
    target = "/api/endpoints?name=a/&page_size=2"
    for _ in range(2):
        page = (await quiet_face.get(target)).json
        found += [each["name"] for each in page["endpoints"]]
        target = f"/api/endpoints?name=a/&page_size=2&page_token={page['next_page_token']}"
    assert found == ["a/1", "a/2", "a/3"]
    assert page["next_page_token"] is None


BAD: list[tuple[int, str, Any]] = [
    (400, "name", {"name": "a b"}),
    (400, "name", {"name": None}),
    (413, "name", {"name": "x" * 257}),
    (400, "address", {"address": ""}),
    (413, "address", {"address": "x" * 1025}),
    (400, "metadata", {"metadata": [1]}),
    (400, "metadata", {"metadata": {"a": "\x00"}}),
    (413, "metadata", {"metadata": {"a": "x" * 4096}}),
    (400, "task_id", {"task_id": "7"}),
    (400, "attempt", {"attempt": -1}),
    (400, "lease_token", {"lease_token": "x"}),
    (400, "port", {"port": 1}),
]


async def test_bad_input_names_its_field_and_changes_nothing(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    for status, field, fields in BAD:
        said = await register(quiet_face, {**claims[0], **fields}, **fields)
        assert (said.status, said.error["field"]) == (status, field), fields
    assert await world.count("endpoints") == 0
    for target, field in (
        ("/api/endpoints/a%20b", "name"),
        ("/api/endpoints/", "name"),
        ("/api/endpoints?page_size=0", "page_size"),
        ("/api/endpoints?page_token=x", "page_token"),
        ("/api/endpoints?name=%00", "name"),
        ("/api/endpoints?prefix=a", "prefix"),
    ):
        said = await quiet_face.get(target)
        assert (said.status, said.error["field"]) == (400, field), target
