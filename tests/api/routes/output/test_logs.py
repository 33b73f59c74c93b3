"""Output: of one attempt, followed or not, and of a whole job."""

import base64
from base64 import b64decode
from typing import Any

import pytest

from holdfast.operations.claiming.claim import Claim
from holdfast.operations.logs import Stretch, append_logs
from tests.api.asgi import Exchange
from tests.api.face import Face, heard
from tests.world import World, fence_of


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def write_log(world: World, claim: Any, offset: int, content: bytes) -> None:
    await append_logs(world.ledger, [Stretch(fence_of(claim), offset, content)])


def text_of(chunk: Any) -> bytes:
    return base64.b64decode(chunk["content"])


async def test_a_log_is_read_from_an_offset_on(face: Face, world: World) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await write_log(world, claim, 0, b"hello ")
    await write_log(world, claim, 6, b"world\n")
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs")
    assert (text_of(chunk), chunk["attempt"]) == (b"hello world\n", 0)
    assert (chunk["offset"], chunk["next_offset"], chunk["is_complete"]) == (0, 12, False)
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs?attempt=0&offset=8")
    assert (text_of(chunk), chunk["next_offset"]) == (b"rld\n", 12)


async def test_a_log_is_read_from_a_line_on_or_from_its_end(face: Face, world: World) -> None:
    job_id = await world.submit()
    path = f"/api/tasks/{job_id}.0/logs"
    assert (await get(face, f"{path}?tail=10"))["line"] is None  # there is no attempt
    [claim] = await world.claim()
    await write_log(world, claim, 0, b"one\ntwo\nthree\n")
    chunk = await get(face, f"{path}?tail=2")
    assert (text_of(chunk), chunk["line"], chunk["offset"]) == (b"two\nthree\n", 2, 4)
    chunk = await get(face, f"{path}?line=3&bytes_max=2")
    assert (text_of(chunk), chunk["line"], chunk["next_offset"]) == (b"th", 3, 10)
    chunk = await get(face, f"{path}?line=99")
    assert (text_of(chunk), chunk["line"], chunk["offset"]) == (b"", 4, 14)
    assert (await get(face, path))["line"] is None
    await write_log(world, claim, 9 << 20, b"after the gap\n")
    chunk = await get(face, f"{path}?offset=14")
    assert (chunk["offset"], chunk["left_out"]) == (9 << 20, (9 << 20) - 14)


async def test_a_log_that_is_followed_waits_for_more_and_for_its_end(
    face: Face, world: World
) -> None:
    job_id = await world.submit()
    waiting = Exchange(face.app, "GET", f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=60000")
    [claim] = await world.claim()
    await write_log(world, claim, 0, b"one")
    said = await heard(waiting)
    assert (text_of(said.json), said.json["is_complete"]) == (b"one", False)
    target = f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=60000&attempt=0&offset=3"
    waiting = Exchange(face.app, "GET", target)
    await world.start(claim)
    await world.succeed(claim)
    said = await heard(waiting)
    assert (text_of(said.json), said.json["is_complete"]) == (b"", True)


async def test_a_log_that_is_followed_in_vain_says_where_it_stands(
    face: Face, world: World
) -> None:
    job_id = await world.submit()
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=20&offset=0")
    assert (chunk["attempt"], chunk["next_offset"], chunk["is_complete"]) == (-1, 0, False)
    await world.cancel_job(job_id)
    chunk = await get(face, f"/api/tasks/{job_id}.0/logs?follow=true&wait_ms=60000")
    assert (chunk["attempt"], chunk["is_complete"]) == (-1, True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("attempt=-1", "attempt"),
        ("attempt=99999999999", "attempt"),
        ("follow=true&wait_ms=-1", "wait_ms"),
        ("tail=0", "tail"),
        ("line=-1", "line"),
        ("bytes_max=0", "bytes_max"),
        ("bytes_max=1048577", "bytes_max"),
        ("line=1&tail=1", "tail"),
        ("offset=4&line=2", "line"),
        ("line=99999999999", "line"),
        ("tail=99999999999", "tail"),
    ],
)
async def test_a_place_that_no_log_has_is_refused(
    face: Face, world: World, query: str, field: str
) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/tasks/{job_id}.0/logs?{query}")
    assert (said.status, said.error["field"]) == (400, field)


async def test_an_attempt_that_never_was_has_no_log(face: Face, world: World) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/tasks/{job_id}.0/logs?attempt=3")
    assert (said.status, said.error["message"]) == (404, f"there is no attempt {job_id}.0.3")


async def say(world: World, claim: Claim, offset: int, content: bytes) -> None:
    await append_logs(world.ledger, [Stretch(fence_of(claim), offset, content)])
    await world.clock.advance(2)


async def test_output_of_a_job_is_followed_to_its_end(face: Face, world: World) -> None:
    job_id = await world.submit([0, 1])
    first, second = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    path = f"/api/jobs/{job_id}/logs"
    nothing: Any = (await face.get(path)).json
    assert (nothing["stretches"], nothing["is_complete"]) == ([], False)
    await say(world, second, 0, b"b\n")
    await say(world, first, 0, b"a\n")
    token = nothing["next_page_token"]
    told: Any = (await face.get(f"{path}?page_token={token}")).json
    assert [(s["task_id"], s["attempt"], s["offset"]) for s in told["stretches"]] == [
        (f"{job_id}.1", 0, 0),
        (f"{job_id}.0", 0, 0),
    ]
    assert [b64decode(s["content"]) for s in told["stretches"]] == [b"b\n", b"a\n"]
    one: Any = (await face.get(f"{path}?task_index=0&page_size=1")).json
    assert one["stretches"] == told["stretches"][1:]
    token = told["next_page_token"]
    waiting: Any = (await face.get(f"{path}?page_token={token}")).json
    assert waiting == {
        "stretches": [], "next_page_token": token, "is_complete": False, "older_page_token": None,
    }  # fmt: skip
    await say(world, first, 2, b"more")
    for claim in (first, second):
        await world.succeed(claim)
    await world.clock.advance(2)
    last: Any = (await face.get(f"{path}?page_token={token}")).json
    assert [b64decode(s["content"]) for s in last["stretches"]] == [b"more"]
    assert (last["is_complete"], last["next_page_token"]) == (True, None)


async def test_output_of_a_job_is_read_from_its_end_back_and_on(face: Face, world: World) -> None:
    job_id = await world.submit([0, 1])
    path = f"/api/jobs/{job_id}/logs"
    nothing = await get(face, f"{path}?tail=true")
    assert (nothing["stretches"], nothing["older_page_token"]) == ([], None)
    claims = await world.claim(2)
    for offset in range(3):
        for claim in claims:
            await say(world, claim, offset, b"%d" % offset)
    page = await get(face, f"{path}?tail=true&page_size=4")
    found = [b64decode(each["content"]) for each in page["stretches"]]
    assert (found, page["is_complete"]) == ([b"1", b"1", b"2", b"2"], False)
    older = await get(face, f"{path}?older_page_token={page['older_page_token']}")
    assert [b64decode(each["content"]) for each in older["stretches"]] == [b"0", b"0"]
    assert (older["older_page_token"], older["next_page_token"]) == (None, None)
    await say(world, claims[0], 3, b"3")
    for claim in claims:
        await world.succeed(claim)
    await world.clock.advance(2)
    for token in (page["next_page_token"], nothing["next_page_token"]):
        more = await get(face, f"{path}?page_token={token}")
        assert b64decode(more["stretches"][-1]["content"]) == b"3"
    assert len(more["stretches"]) == 7, "who began with an empty tail misses nothing"
    last = await get(face, f"{path}?tail=true&page_size=1")
    assert (last["is_complete"], last["next_page_token"]) == (True, None)
    for field in ("page_token=" + page["next_page_token"], "task_index=0"):
        said = await face.get(f"{path}?tail=true&{field}")
        assert (said.status, said.error["field"]) == (400, field.partition("=")[0])


async def test_a_chunk_says_when_it_was_stored(face: Face, world: World) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await say(world, claim, 0, b"one\n")
    await say(world, claim, 4, b"two\n")
    times = (await get(face, f"/api/tasks/{job_id}.0/logs"))["times"]
    assert [time["offset"] for time in times] == [0, 4]
    assert 2000 <= times[1]["stored_at_ms"] - times[0]["stored_at_ms"] < 60_000


async def test_lines_of_a_job_are_searched(face: Face, world: World) -> None:
    job_id = await world.submit([0, 1])
    first, second = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    await say(world, first, 0, b"load a\nload \xff")
    await say(world, second, 0, b"load 100% c&d\n")
    path = f"/api/jobs/{job_id}/log-lines"
    page = await get(face, path)
    assert page["next_page_token"] is None
    assert [(x["task_id"], x["attempt"], x["offset"], x["text"]) for x in page["lines"]] == [
        (f"{job_id}.0", 0, 0, "load a"),
        (f"{job_id}.0", 0, 7, "load \\xff"),
        (f"{job_id}.1", 0, 0, "load 100% c&d"),
    ]
    assert (await get(face, f"{path}?contains=100%25%20c%26d"))["lines"] == page["lines"][2:]
    assert (await get(face, f"{path}?task_index=1&attempt=0"))["lines"] == page["lines"][2:]
    at = page["lines"][2]["stored_at_ms"]
    assert (await get(face, f"{path}?since={at}"))["lines"] == page["lines"][2:]
    assert (await get(face, f"{path}?until={at}&page_size=1"))["lines"] == page["lines"][:1]
    paged, token = [], ""
    for _ in range(len(page["lines"])):
        found = await get(face, f"{path}?page_size=1{token}")
        paged += found["lines"]
        token = f"&page_token={found['next_page_token']}"
    assert paged == page["lines"]


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("contains=a%0Ab", 400, "contains"),
        ("contains=%00", 400, "contains"),
        (f"contains={'x' * 1001}", 413, "contains"),
        ("since=yesterday", 400, "since"),
        ("since=2026-01-01T00:00:00", 400, "since"),
        ("since=2000&until=1000", 400, "until"),
        ("attempt=-1", 400, "attempt"),
        ("task_index=x", 400, "task_index"),
        ("page_token=WzFd", 400, "page_token"),
        ("page_size=0", 400, "page_size"),
        ("grep=x", 400, "grep"),
    ],
)
async def test_a_search_that_cannot_be_made_is_refused(
    face: Face, world: World, query: str, status: int, field: str
) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/jobs/{job_id}/log-lines?{query}")
    assert (said.status, said.error["field"]) == (status, field)


async def test_a_job_that_is_not_there_has_no_lines(face: Face) -> None:
    assert (await face.get("/api/jobs/7/log-lines")).status == 404
