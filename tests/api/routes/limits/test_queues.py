"""Queues: listed, paused and resumed."""

from typing import Any

import msgspec
import pytest

from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from tests.api.face import Face
from tests.usage_limits import FIVE, gate, hold, set_limit
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def test_queues_are_listed_by_name(face: Face, world: World) -> None:
    await world.submit([1, 2], queue="emails")
    await pause_queue(world.ledger, "closed", actor="eve")
    queues = (await get(face, "/api/queues"))["queues"]
    assert [queue["queue"] for queue in queues] == ["closed", "emails"]
    assert (queues[0]["paused"], queues[0]["paused_by"], queues[0]["depth"]) == (True, "eve", 0)
    assert (queues[1]["paused"], queues[1]["depth"]) == (False, 2)
    assert queues[0]["oldest_age_seconds"] is None
    assert queues[1]["oldest_age_seconds"] >= 0


async def test_a_queue_that_is_served_is_listed_while_it_is_idle(face: Face, world: World) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("idle", "busy")))
    await world.submit(queue="busy")
    await world.submit(queue="left")
    queues = (await get(face, "/api/queues"))["queues"]
    assert [(q["queue"], q["depth"], q["workers"], q["is_served"]) for q in queues] == [
        ("busy", 1, 1, True),
        ("idle", 0, 1, True),
        ("left", 1, 0, False),
    ]


async def test_what_limits_hold_back_is_told_apart_from_what_is_idle(
    face: Face, world: World
) -> None:
    bucket = await set_limit(world, limit=msgspec.structs.replace(FIVE, most=1.0))
    await hold(world, bucket)
    await gate(world, bucket, count=3)
    [queue] = (await get(face, "/api/queues"))["queues"]
    assert (queue["queue"], queue["depth"], queue["gated"]) == ("q", 0, 3)
    assert queue["limited_by"] is None
    await world.submit([1, 2])
    [queue] = (await get(face, "/api/queues"))["queues"]
    assert (queue["depth"], queue["gated"], queue["limited_by"]) == (2, 3, "mail")


async def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(quiet_face: Face) -> None:
    await quiet_face.submit(queue="team/gpu")
    for _ in range(2):
        assert (await quiet_face.post("/api/queues/team/gpu:pause")).json == {"changed": True}
    assert await quiet_face.claim(queues=["team/gpu"]) == []
    for _ in range(2):
        assert (await quiet_face.post("/api/queues/team%2Fgpu:resume")).json == {"changed": True}
    assert len(await quiet_face.claim(queues=["team/gpu"])) == 1


async def test_a_queue_that_cannot_be_is_named_as_it_was_sent(
    quiet_face: Face, world: World
) -> None:
    for status, name, shown in (
        (400, "a%00b", ""),
        (400, "a%20b", "'a b'"),
        (400, "a%2525b", "'a%25b'"),
        (413, "q" * 257, "257 characters"),
    ):
        said = await quiet_face.post(f"/api/queues/{name}:pause")
        assert (said.status, said.error["field"]) == (status, "queue")
        assert shown in said.error["message"]
    assert await world.count("queues") == 0


async def test_who_paused_a_queue_is_kept(quiet_face: Face, world: World) -> None:
    await quiet_face.post("/api/queues/q:pause", holdfast_actor="ann")
    [row] = await world.clock.fetch("select queue, paused_by from holdfast.queues")
    assert tuple(row) == ("q", "ann")
