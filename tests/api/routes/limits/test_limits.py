"""The routes of limits: put, listed, shown and deleted."""

import pytest

from tests.api.face import Face, fence, lease_header
from tests.usage_limits import gate, hold, set_limit
from tests.world import World

SLOTS = {"scope": "queue", "most": 5}


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def test_a_limit_is_put_listed_shown_and_deleted(face: Face, world: World) -> None:
    put = await face.change("PUT", "/api/limits/mail", SLOTS, holdfast_actor="ann")
    assert (put.status, put.json["changed"], put.json["note"]) == (200, True, None)
    again = await face.change("PUT", "/api/limits/mail", SLOTS, holdfast_actor="bob")
    assert (again.json["changed"], again.json["limit"]) == (False, put.json["limit"])
    assert put.json["limit"]["updated_by"] == "ann"
    rate = {"scope": "key", "kind": "bucket", "most": 100, "period": 60}
    await face.change("PUT", "/api/limits/api", rate)
    listed = await face.list_all("/api/limits?page_size=1", "limits")
    assert [(each["name"], each["kind"], each["burst"]) for each in listed] == [
        ("api", "bucket", pytest.approx(100 / 60)),
        ("mail", "concurrency", None),
    ]
    assert (await face.get("/api/limits/mail")).json["limit"] == put.json["limit"]
    assert (await face.change("DELETE", "/api/limits/mail")).json == {"changed": True}
    assert (await face.change("DELETE", "/api/limits/mail")).json == {"changed": False}
    assert (await face.get("/api/limits/mail")).status == 404


async def test_who_holds_the_slots_is_named_and_what_is_too_much_is_said(
    face: Face, world: World
) -> None:
    bucket = await set_limit(world)
    tasks = await hold(world, bucket, count=3)
    await gate(world, bucket, count=2)
    lowered = await face.change("PUT", "/api/limits/mail", SLOTS | {"most": 1})
    assert lowered.json["note"].startswith("2 slots are held beyond the limit: nothing is ended")
    shown = (await face.get("/api/limits/mail")).json
    status = shown["limit"]
    assert (status["held"], status["surplus"], status["gated"]) == (3, 2, 2)
    [one] = shown["buckets"]
    assert (one["value"], one["in_use"], one["free"], one["gated"]) == ("q", 3, 0, 2)
    assert [holder["task_id"] for holder in one["holders"]] == [str(task) for task in tasks]
    assert {holder["worker_id"] for holder in one["holders"]} == {"w1"}


async def test_buckets_come_in_pages_or_one_by_its_value(face: Face, world: World) -> None:
    await set_limit(world)
    for value in ("a", "ä", "b"):
        await world.clock.fetch(
            "insert into holdfast.limit_buckets (limit_id, value) "
            "select limit_id, $1 from holdfast.usage_limits",
            value,
        )
    found = await face.list_all("/api/limits/mail?page_size=2", "buckets")
    assert [each["value"] for each in found] == ["a", "b", "q", "ä"]
    [one] = (await face.get("/api/limits/mail?value=b")).json["buckets"]
    assert one["value"] == "b"


async def test_a_token_bucket_says_when_the_next_token_is_there(face: Face, world: World) -> None:
    await face.change(
        "PUT", "/api/limits/r", {"scope": "key", "kind": "bucket", "most": 6, "period": 60}
    )
    await world.clock.fetch(
        "insert into holdfast.limit_buckets (limit_id, value, tokens, filled_at) "
        "select limit_id, 'k', 0, holdfast.now() from holdfast.usage_limits"
    )
    [bucket] = (await face.get("/api/limits/r")).json["buckets"]
    assert 0 <= bucket["free"] < 1
    [row] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    assert 0 < bucket["next_at_ms"] / 1000 - row[0] <= 10


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"scope": "person", "most": 5}, 400, "scope"),
        ({"scope": "queue"}, 400, "most"),
        ({"scope": "queue", "most": -1}, 400, "most"),
        ({"scope": "queue", "most": 5, "kind": "bucket"}, 400, "period"),
        ({"scope": "queue", "most": 5, "burst": 1}, 400, "burst"),
    ],
)
async def test_what_cannot_be_right_is_refused_with_its_field(
    face: Face, world: World, body: dict[str, object], status: int, field: str
) -> None:
    said = await face.change("PUT", "/api/limits/mail", body)
    assert (said.status, said.error["field"]) == (status, field)
    assert await world.count("usage_limits") == 0


async def test_an_attempt_takes_its_turn_by_its_lease_alone(face: Face, world: World) -> None:
    await face.change(
        "PUT", "/api/limits/s", {"scope": "name", "kind": "bucket", "most": 1, "period": 10}
    )
    await face.submit()
    [claim] = await face.claim()
    body = fence(claim) | {"name": "s"}
    first = await face.post("/internal/limit-take", body)
    assert first.json == {"granted": True, "wait_seconds": 0.0}
    shown = {"holdfast_lease": lease_header(claim)}
    second = (await face.post("/internal/limit-take", body | {"patience": 1}, **shown)).json
    assert not second["granted"]
    assert second["wait_seconds"] > 1
    await face.complete(claim)
    said = await face.post("/internal/limit-take", body, **shown)
    assert (said.status, said.error["code"]) == (409, "lease_conflict")
