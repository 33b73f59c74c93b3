"""The routes that read events, by pages and as they come."""

import re
from typing import Any

import msgspec
import pytest

from holdfast.api.routes.output.events import parse_cursor, pour
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.notes import Note
from holdfast.services.runtime import Runtime
from holdfast.store.reads.output import events
from holdfast.store.reads.output.events import Follower
from tests.api.asgi import Exchange
from tests.api.face import Face
from tests.world import World

HELLO = re.compile(rb": events follow\nid: (\d+-\d+)\n\n")
_MESSAGE = re.compile(rb"id: (\d+-\d+)\ndata: (.*)\n\n")


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


class Story:
    """A stream of events that is being read."""

    def __init__(self, face: Face, query: str = "", **headers: str) -> None:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        target = f"/api/events/stream?{query}"
        self._exchange = Exchange(face.app, "GET", target, headers=named)

    async def read(self, count: int) -> list[tuple[str, Any]]:
        """Wait for so many events; returns all so far, with their ids."""
        await self._exchange.until(lambda text: len(_MESSAGE.findall(text)) >= count)
        return [
            (place.decode(), msgspec.json.decode(text))
            for place, text in _MESSAGE.findall(self._exchange.content)
        ]

    async def begin(self) -> "Story":
        """Wait until the first frame has come."""
        await self._exchange.until(lambda text: b"\n\n" in text)
        return self

    @property
    def first_id(self) -> str:
        """The id that the first frame gives, with which one can come back."""
        found = HELLO.match(self._exchange.content)
        assert found is not None, self._exchange.content
        return found[1].decode()

    async def end(self) -> tuple[int, dict[str, str], bytes]:
        """Wait until the server has said all it has to say."""
        return await self._exchange.answer()

    async def leave(self) -> None:
        """Stop reading."""
        await self._exchange.leave()


def types_of(found: list[Any]) -> list[str]:
    return [event["type"] for event in found]


def fence(claim: Claim) -> dict[str, Any]:
    """Name an attempt and its lease."""
    token = str(claim.lease_token)
    return {"task_id": str(claim.task_id), "attempt": claim.attempt, "lease_token": token}


async def test_the_events_of_a_job_come_in_the_order_of_time(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2])
    for claim in await world.claim(2):
        await world.start(claim)
        await world.succeed(claim)
    said = await face.get(f"/api/jobs/{job_id}/events")
    listed = said.json["events"]
    assert types_of(listed)[0] == "submitted"
    assert types_of(listed)[-1] == "succeeded"
    assert len(listed) == 9
    assert [event["ts"] for event in listed] == sorted(event["ts"] for event in listed)
    assert {event["job_id"] for event in listed} == {str(job_id)}
    own = [event["type"] for event in listed if event["task_index"] == -1]
    assert own == ["submitted", "started", "succeeded"]
    assert said.json["next_page_token"] is None


async def test_the_pages_of_events_join(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2, 3])
    await world.claim(3)
    whole = (await face.get(f"/api/jobs/{job_id}/events")).json["events"]
    assert await face.list_all(f"/api/jobs/{job_id}/events?page_size=1", "events") == whole
    assert len(whole) == 5


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("claimed", ["claimed"]),
        ("job_claimed", ["claimed"]),
        ("job_cancelled", ["killed"]),
        ("job_heartbeat", []),
        ("job_compensated", []),
    ],
)
async def test_events_are_found_by_their_names_old_and_new(
    face: Face, world: World, name: str, types: list[str]
) -> None:
    job_id = await world.submit([1, 2])
    [claim] = await world.claim()
    await world.cancel_task(claim.task_id)
    said = await face.get(f"/api/tasks/{job_id}.0/events?type={name}")
    assert types_of(said.json["events"]) == types


async def test_the_events_of_a_task_are_its_own(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2])
    await world.claim(2)
    said = await face.get(f"/api/tasks/{job_id}.1/events")
    [event] = said.json["events"]
    assert (event["task_index"], event["type"], event["actor"]) == (1, "claimed", "w1")
    assert (event["seq"], event["version"], event["payload"]) == (0, 1, None)


@pytest.mark.parametrize("what", ["jobs/{job_id}", "tasks/{job_id}.0"])
@pytest.mark.parametrize(
    ("query", "field"),
    [("type=eaten", "type"), ("page_size=0", "page_size"), ("page_token=x", "page_token")],
)
async def test_events_that_cannot_be_are_refused_by_the_field(
    face: Face, world: World, what: str, query: str, field: str
) -> None:
    job_id = await world.submit()
    said = await face.get(f"/api/{what.format(job_id=job_id)}/events?{query}")
    assert (said.status, said.error["field"]) == (400, field)


async def test_events_of_user_code_are_listed_by_their_kind(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2])
    first, second = await world.claim(2)
    told = {**fence(first), "kind": "loaded", "payload": {"rows": 3}}
    assert (await face.post("/internal/task-event", told)).status == 200
    await world.complete(second, "succeeded", events=(Note("heartbeat"),))
    listed = (await face.get(f"/api/jobs/{job_id}/events?type=user")).json["events"]
    assert types_of(listed) == ["user:loaded", "user:heartbeat"]
    assert [(event["actor"], event["payload"]) for event in listed] == [
        ("w1", {"rows": 3}),
        ("w1", None),
    ]
    for query, types in (
        (f"jobs/{job_id}/events?type=user:loaded", ["user:loaded"]),
        (f"tasks/{job_id}.1/events?type=user", ["user:heartbeat"]),
        (f"jobs/{job_id}/events?type=user:Loaded", []),
        (f"jobs/{job_id}/events?type=heartbeat", []),
    ):
        assert types_of((await face.get(f"/api/{query}")).json["events"]) == types


async def test_an_event_of_user_code_that_cannot_be_kept_is_refused(
    face: Face, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    for body, answer in (
        ({**fence(mine), "kind": ""}, (400, "kind")),
        ({**fence(mine), "kind": "x" * 2000}, (413, "kind")),
        (fence(mine), (400, "kind")),
    ):
        said = await face.post("/internal/task-event", body)
        assert (said.status, said.error["field"]) == answer
    await world.succeed(mine)
    late = await face.post("/internal/task-event", {**fence(mine), "kind": "late"})
    assert (late.status, late.error["code"]) == (409, "lease_conflict")
    assert await world.count("notes") == 0


async def search(face: Face, query: str, page_size: int = 1000) -> list[Any]:
    """List events of all jobs, however many pages it takes."""
    return await face.list_all(f"/api/events?page_size={page_size}&{query}", "events")


async def test_events_are_searched_across_jobs_by_type_time_and_correlation(
    face: Face, world: World
) -> None:
    old = await world.submit(correlation_id="order-7")
    await world.claim()
    await world.clock.advance(7200)
    now = (await world.clock.fetch("select holdfast.now()"))[0][0]
    new = await world.submit(correlation_id="order-7")
    other = await world.submit()
    await world.claim(2)

    def of(found: list[Any]) -> list[tuple[str, str]]:
        """Leave out that the jobs have started, at the same moment as the claims."""
        return [(each["job_id"], each["type"]) for each in found if each["type"] != "started"]

    lately = [(str(new), "submitted"), (str(other), "submitted")]
    lately += [(str(new), "claimed"), (str(other), "claimed")]
    for page_size in (1, 1000):
        assert of(await search(face, "", page_size)) == lately
        assert of(await search(face, "type=job_claimed", page_size)) == lately[2:]
        assert of(await search(face, "correlation_id=order-7", page_size)) == [
            (str(old), "submitted"),
            (str(old), "claimed"),
            lately[0],
            lately[2],
        ]
        since = f"since={int(now.timestamp() * 1000)}"
        assert of(await search(face, f"correlation_id=order-7&{since}", page_size)) == [
            lately[0],
            lately[2],
        ]
        early = "since=2000-01-01T00:00:00Z&until=" + now.strftime("%Y-%m-%dT%H:%M:%SZ")
        assert of(await search(face, early, page_size)) == [
            (str(old), "submitted"),
            (str(old), "claimed"),
        ]
    assert await search(face, "correlation_id=nobody") == []
    assert len(await search(face, "since=1960-01-01T00:00:00Z", 1)) == 9
    ended = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await search(face, f"until={ended}") == []


async def test_events_of_user_code_are_searched_across_jobs(face: Face, world: World) -> None:
    jobs = [await world.submit(correlation_id=order) for order in ("o1", "o2")]
    for claim in await world.claim(2):
        for kind in ("loaded", "checked"):
            await face.post("/internal/task-event", {**fence(claim), "kind": kind})
        await world.clock.advance(1)

    def of(found: list[Any]) -> list[tuple[str, str]]:
        return [(each["job_id"], each["type"]) for each in found]

    first, second = ([(str(job), f"user:{kind}") for kind in ("loaded", "checked")] for job in jobs)
    for page_size in (1, 1000):
        assert of(await search(face, "type=user", page_size)) == first + second
        loaded = await search(face, "type=user:loaded&since=2000-01-01T00:00:00Z", page_size)
        assert of(loaded) == [first[0], second[0]]
        assert of(await search(face, "type=user&correlation_id=o2", page_size)) == second
    await world.clock.advance(7200)
    assert await search(face, "type=user") == []
    assert of(await search(face, "type=user&correlation_id=o2")) == second


async def test_events_of_one_moment_are_all_found(
    face: Face, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVENTS_EXAMINED_MAX", 4)
    monkeypatch.setattr(events, "CORRELATED_TASKS_MAX", 4)
    job_id = await world.submit(list(range(20)), correlation_id="many")
    await world.claim(20)
    whole = [f"{job_id}.{index}" for index in range(20)]
    for query in ("type=claimed", "type=claimed&correlation_id=many"):
        found = await search(face, query, 3)
        assert sorted(f"{event['job_id']}.{event['task_index']}" for event in found) == sorted(
            whole
        )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("type=eaten", "type"),
        ("type=heartbeat", "type"),
        ("type=progress", "type"),
        ("since=yesterday", "since"),
        ("since=2026-11-16T12:00:00", "since"),
        ("since=99999999999999999999", "since"),
        ("since=%C2%B2", "since"),
        ("since=0001-01-01T00:00:00%2B14:00", "since"),
        ("until=x", "until"),
        ("since=2000&until=1000", "until"),
        ("correlation_id=a%00b", "correlation_id"),
        ("page_token=x", "page_token"),
    ],
)
async def test_a_search_that_cannot_be_is_refused_by_the_field(
    face: Face, query: str, field: str
) -> None:
    said = await face.get(f"/api/events?{query}")
    assert (said.status, said.error["field"]) == (400, field)


@pytest.mark.parametrize("name", ["user", "user:loaded", "job_heartbeat", "progress"])
async def test_notes_are_not_followed_for_ever_in_vain(face: Face, name: str) -> None:
    said = await face.get(f"/api/events/stream?type={name}")
    assert (said.status, said.error["field"]) == (400, "type")
    assert "list the events of one job" in said.error["message"]


async def test_a_stream_tells_what_happens_from_now_on(face: Face, world: World) -> None:
    before = await world.submit()
    story = await Story(face).begin()
    [claim] = await world.claim()
    await world.start(claim)
    found = [event for _, event in await story.read(3)]
    assert types_of(found) == ["claimed", "started", "started"]
    assert {event["job_id"] for event in found} == {str(before)}
    await story.leave()


async def test_a_stream_goes_on_where_it_was_left(face: Face, world: World) -> None:
    await world.submit()
    [claim] = await world.claim()
    await world.start(claim)
    story = Story(face, "after=0-0")
    whole = await story.read(4)
    await story.leave()
    assert [event["type"] for _, event in whole] == ["submitted", "claimed", "started", "started"]
    for place in range(4):
        for again in (
            Story(face, f"after={whole[place][0]}"),
            Story(face, last_event_id=whole[place][0]),
            Story(face, "after=0-0", last_event_id=whole[place][0]),
        ):
            await again.begin()
            assert await again.read(3 - place) == whole[place + 1 :]
            await again.leave()


async def test_a_stream_that_broke_before_its_first_event_misses_nothing(
    face: Face, world: World
) -> None:
    before = await world.submit()
    story = await Story(face).begin()
    await story.leave()
    [claim] = await world.claim()
    await world.start(claim)
    again = await Story(face, last_event_id=story.first_id).begin()
    found = [event for _, event in await again.read(3)]
    assert types_of(found) == ["claimed", "started", "started"]
    assert {event["job_id"] for event in found} == {str(before)}
    await again.leave()


async def test_a_stream_is_narrowed_to_a_job_and_a_type(face: Face, world: World) -> None:
    first, second = await world.submit(), await world.submit()
    await world.claim(2)
    story = Story(face, f"after=0-0&job_id={second}&type=job_claimed")
    [(_, event)] = await story.read(1)
    assert (event["job_id"], event["type"]) == (str(second), "claimed")
    assert first != second
    await story.leave()


async def test_a_stream_is_what_browsers_expect(face: Face, quiet: Runtime, world: World) -> None:
    story = await Story(face).begin()
    await quiet.stop()
    status, headers, content = await story.end()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert headers["cache-control"] == "no-store"
    assert HELLO.fullmatch(content)


async def test_a_quiet_stream_is_kept_alive_and_told_its_place(
    face: Face, quiet: Runtime, world: World
) -> None:
    follower = Follower()
    async with quiet.reads.transaction() as tx:
        await follower.start(tx)
    chunks = pour(quiet, follower, None, keep_alive_seconds=0.0)
    assert HELLO.fullmatch(await anext(chunks))
    kept_alive = re.fullmatch(rb": nothing new\nid: (\d+-\d+)\n\n", await anext(chunks))
    await quiet.stop()
    assert [chunk async for chunk in chunks] == []
    assert kept_alive is not None
    assert parse_cursor(kept_alive[1].decode(), "id").txid > 0


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        ("after=x", {}, "after"),
        ("after=1", {}, "after"),
        (f"after={2**63}-1", {}, "after"),
        ("", {"last_event_id": "é"}, "Last-Event-ID"),
        ("type=eaten", {}, "type"),
        ("job_id=x", {}, "job_id"),
        ("colour=red", {}, "colour"),
    ],
)
async def test_a_stream_that_cannot_be_is_refused_by_the_field(
    face: Face, query: str, headers: dict[str, str], field: str
) -> None:
    said = await face.get(f"/api/events/stream?{query}", **headers)
    assert (said.status, said.error["field"]) == (400, field)
