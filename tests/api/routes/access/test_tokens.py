"""Tokens, made and taken back by admins."""

import pytest

from tests.api.face import Face


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server that asks nobody who he is: on loopback everybody is an admin."""
    return quiet_face


async def test_a_token_is_made_listed_rotated_and_revoked(face: Face) -> None:
    body = {
        "name": "ci",
        "roles": ["submit"],
        "owners": ["ann"],
        "expires_at": "2999-01-01T00:00:00Z",
    }
    made = await face.post("/api/tokens", body, holdfast_actor="root")
    assert made.status == 201
    rotated = await face.post("/api/tokens/ci:rotate", {"grace_seconds": 60})
    assert rotated.json["token_id"] == made.json["token_id"]
    assert rotated.json["token"] != made.json["token"]
    [listed] = (await face.get("/api/tokens")).json["tokens"]
    assert (listed["name"], listed["owners"], listed["created_by"]) == ("ci", ["ann"], "root")
    secrets = {said.json["token"].rpartition("_")[2] for said in (made, rotated)}
    assert not any(secret in repr(listed) for secret in secrets)
    assert (await face.post(f"/api/tokens/{made.json['token_id']}:revoke")).json["changed"]
    assert (await face.get("/api/tokens")).json["tokens"] == []
    [listed] = (await face.get("/api/tokens?revoked=true")).json["tokens"]
    assert listed["revoked_by"] == "api"
    assert (await face.post("/api/tokens/ci:revoke")).status == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "ci", "roles": ["root"]}, "roles"),
        ({"name": "a/b", "roles": ["read"]}, "name"),
        ({"name": "ci", "roles": ["read"], "expires_at": "2999-01-01T00:00:00"}, "expires_at"),
        ({"name": "ci", "roles": ["read"], "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ],
)
async def test_what_cannot_be_right_makes_no_token(
    face: Face, body: dict[str, object], field: str
) -> None:
    said = await face.post("/api/tokens", body)
    assert (said.status, said.error["field"]) == (400, field)
    assert (await face.get("/api/tokens?revoked=true")).json["tokens"] == []


async def test_a_grace_is_a_time_to_wait(face: Face) -> None:
    await face.post("/api/tokens", {"name": "ci", "roles": ["read"]})
    for seconds in (-1, 1e12):
        said = await face.post("/api/tokens/ci:rotate", {"grace_seconds": seconds})
        assert (said.status, said.error["field"]) == (400, "grace_seconds")
