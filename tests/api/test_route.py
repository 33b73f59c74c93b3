"""The frame of every route: what it reads, what it refuses, and what it says when things break."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec
import pytest

from holdfast.api import bodies
from holdfast.api.app import App
from holdfast.api.dashboard import open_dashboard
from holdfast.api.hosts import Hosts
from holdfast.api.route import Call, Reply, Route, Stream, decode_text
from holdfast.errors import Invalid, NotFound, Overloaded
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.roles import EVERYBODY, Role
from holdfast.services.runtime import Runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.store.database import Database
from holdfast.wire.requests import Nothing, Request
from tests.api.asgi import Exchange, call


class Order(Request, frozen=True):
    """A body."""

    item: str = "nothing"
    count: int = 1


class Choice(Request, frozen=True):
    """A query."""

    size: int = 10
    name: str | None = None
    loud: bool = False


def serve(runtime: Runtime, *routes: Route) -> Any:
    """Make an application of a few routes."""
    return App([each.bind(runtime, Hosts()) for each in routes], open_dashboard())


def get(path: str, answer: Any, **more: Any) -> Route:
    """Declare a route that is read."""
    return Route("GET", path, answer, None, EVERYBODY, **more)


def error_of(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str, str | None]:
    """Read an error: its status, code and field."""
    status, headers, content = answer
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(content))
    assert headers["x-content-type-options"] == "nosniff"
    error = msgspec.json.decode(content)["error"]
    return status, error["code"], error.get("field")


async def take_order(call: Call[Order, Choice]) -> dict[str, Any]:
    """Repeat what was understood."""
    return {
        "item": call.body.item,
        "count": call.body.count,
        "size": call.query.size,
        "name": call.query.name,
        "loud": call.query.loud,
        "path": call.path,
        "actor": call.actor,
    }


@pytest.fixture
def quiet() -> Runtime:
    """A server that has no database, and needs none here."""
    database = Database("postgresql://127.0.0.1:1/nowhere")
    return Runtime(Ledger(database), database, WakeUps(Doorbells()))


@pytest.fixture
def app(quiet: Runtime) -> Any:
    """One route that takes a body, a query and a name in its path."""
    return serve(quiet, Route("POST", "/orders/{who}", take_order, dict, Role.READ, Order, Choice))


async def test_path_query_body_and_actor_are_read(app: Any) -> None:
    status, headers, content = await call(
        app,
        "POST",
        "/orders/a%20b?size=7&name=x%26y&loud=true",
        body={"item": "tea", "count": 2},
        headers={"Holdfast-Actor": " ann "},
    )
    assert (status, headers["content-type"]) == (200, "application/json")
    assert msgspec.json.decode(content) == {
        "item": "tea",
        "count": 2,
        "size": 7,
        "name": "x&y",
        "loud": True,
        "path": {"who": "a b"},
        "actor": "ann",
    }


async def test_what_is_left_out_has_its_default(app: Any) -> None:
    _, _, content = await call(app, "POST", "/orders/a")
    told = msgspec.json.decode(content)
    assert (told["item"], told["size"], told["actor"]) == ("nothing", 10, "api")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("size=1&size=2", "size"),
        ("size=many", "size"),
        ("size=", "size"),
        ("length=1", "length"),
        ("loud=perhaps", "loud"),
        ("name=%ff", "query"),
    ],
)
async def test_a_bad_query_names_its_parameter(app: Any, query: str, field: str) -> None:
    answer = await call(app, "POST", f"/orders/a?{query}", body={})
    assert error_of(answer) == (400, "invalid", field)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"{", "body"),
        (b"\xff", "body"),
        (b'{"item": "\xff"}', "body"),
        (b"nonsense", "body"),
        (b"{} {}", "body"),
        (b'{"item": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "item"),
        (b'{"item": 1}', "item"),
        (b'{"itme": ""}', "itme"),
        (b"[]", "body"),
        (b'{"count": 1e999}', "count"),
        (b'{"count": 99999999999999999999999999999999.5}', "count"),
    ],
)
async def test_a_bad_body_names_its_field(app: Any, content: bytes, field: str) -> None:
    answer = await call(app, "POST", "/orders/a", body=content)
    assert error_of(answer) == (400, "invalid", field)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
async def test_a_body_that_is_not_declared_to_be_json_is_refused(app: Any, kind: str) -> None:
    answer = await call(app, "POST", "/orders/a", body=b"{}", headers={"content-type": kind})
    assert error_of(answer) == (415, "unsupported_media_type", "Content-Type")


async def test_json_may_say_its_charset(app: Any) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    status, _, _ = await call(app, "POST", "/orders/a", body=b"{}", headers=headers)
    assert status == 200


async def test_a_body_that_says_it_is_huge_is_not_even_read(app: Any) -> None:
    size = bodies.BODY_BYTES_MAX + 1
    headers = {"content-length": str(size)}
    status, _, content = await call(app, "POST", "/orders/a", body=b"{}", headers=headers)
    error = msgspec.json.decode(content)["error"]
    assert (status, error["code"], error["field"]) == (413, "too_large", "body")
    assert error["details"]["size"] == size
    assert error["details"]["limit"] == bodies.BODY_BYTES_MAX


async def in_chunks(app: Any, chunks: list[bytes], *, leaves: bool = False) -> tuple[int, bytes]:
    """Send a body in chunks without saying how long it will be; maybe go away before its end."""
    sent: list[Mapping[str, Any]] = []
    waiting = list(chunks)

    async def receive() -> dict[str, Any]:
        if waiting:
            body = waiting.pop(0)
            return {"type": "http.request", "body": body, "more_body": leaves or bool(waiting)}
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/orders/a",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def test_chunks_are_put_together(app: Any) -> None:
    status, content = await in_chunks(app, [b'{"item"', b": ", b'"tea"}'])
    assert (status, msgspec.json.decode(content)["item"]) == (200, "tea")


async def test_a_body_that_turns_out_to_be_huge_is_given_up(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_MAX", 100)
    chunks = [b'{"item": "', *[b"x" * 30] * 1000, b'"}']
    status, content = await in_chunks(app, chunks)
    error = msgspec.json.decode(content)["error"]
    assert (status, error["code"], error["details"]["limit"]) == (413, "too_large", 100)
    assert error["details"]["size"] < 150


async def test_a_body_that_breaks_off_is_refused(app: Any) -> None:
    status, content = await in_chunks(app, [b'{"item": '], leaves=True)
    assert (status, msgspec.json.decode(content)["error"]["field"]) == (400, "body")


async def test_a_refusal_has_its_status_and_its_words(quiet: Runtime) -> None:
    async def refuse(_: Call[None, Nothing]) -> None:
        raise NotFound("job", 7)

    async def slow_down(_: Call[None, Nothing]) -> None:
        raise Overloaded("too many")

    app = serve(quiet, get("/a", refuse), get("/b", slow_down))
    assert error_of(await call(app, "GET", "/a")) == (404, "not_found", None)
    status, headers, _ = await call(app, "GET", "/b")
    assert (status, headers["retry-after"]) == (429, "1")


async def test_what_breaks_is_logged_whole_and_told_to_nobody(
    quiet: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Call[None, Nothing]) -> None:
        raise AssertionError("a secret")

    async def answer_nonsense(_: Call[None, Nothing]) -> object:
        return object()

    app = serve(quiet, get("/a", fail), get("/b", answer_nonsense))
    for path in ("/a", "/b"):
        status, _, content = await call(app, "GET", path)
        assert (status, msgspec.json.decode(content)["error"]["code"]) == (500, "internal")
        assert b"secret" not in content
    assert [record.getMessage() for record in caplog.records] == [
        "GET /a failed", "GET /b failed",
    ]  # fmt: skip
    assert "a secret" in caplog.text


async def test_a_reply_has_the_status_and_the_type_it_wants(quiet: Runtime) -> None:
    async def reply(_: Call[None, Nothing]) -> Reply:
        return Reply(b"plain", 202, b"text/plain")

    app = serve(quiet, get("/a", reply))
    status, headers, content = await call(app, "GET", "/a")
    assert (status, headers["content-type"], content) == (202, "text/plain", b"plain")


async def test_a_server_that_stops_takes_no_more_requests(app: Any, quiet: Runtime) -> None:
    await quiet.stop()
    answer = await call(app, "POST", "/orders/a", body={})
    assert error_of(answer) == (503, "stopping", None)
    assert answer[1]["retry-after"] == "1"
    # Who calls again comes by another connection, perhaps to another server.
    assert answer[1]["connection"] == "close"


@pytest.mark.parametrize("waits", [True, False])
async def test_what_a_stop_breaks_off_is_answered(quiet: Runtime, *, waits: bool) -> None:
    began = asyncio.Event()

    async def hang(_: Call[None, Nothing]) -> None:
        began.set()
        await asyncio.sleep(3600)

    app = serve(quiet, get("/a", hang, waits=waits))
    broken_off = Exchange(app, "GET", "/a")
    await began.wait()
    assert (await broken_off.cancel(), broken_off.status) == (True, 0)
    began.clear()
    broken_off = Exchange(app, "GET", "/a")
    await began.wait()
    await quiet.stop()
    assert not await broken_off.cancel()
    assert error_of(await broken_off.answer()) == (503, "stopping", None)


async def test_an_answer_is_given_up_when_nobody_waits_for_it(quiet: Runtime) -> None:
    ended: list[str] = []

    async def wait(_: Call[None, Nothing]) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    app = serve(quiet, get("/a", wait, waits=True))
    exchange = Exchange(app, "GET", "/a")
    await asyncio.sleep(0)
    await exchange.leave()
    assert (exchange.status, ended) == (0, ["cancelled"])


async def test_a_refusal_after_a_wait_leaves_nothing_behind(quiet: Runtime) -> None:
    async def refuse(_: Call[None, Nothing]) -> None:
        raise NotFound("job", 7)

    app = serve(quiet, get("/a", refuse, waits=True))
    before = len(asyncio.all_tasks())
    assert error_of(await call(app, "GET", "/a"))[0] == 404
    assert len(asyncio.all_tasks()) == before


def streaming(quiet: Runtime, chunks: AsyncGenerator[bytes, None]) -> Any:
    async def pour(_: Call[None, Nothing]) -> Stream:
        return Stream(chunks)

    return serve(quiet, get("/a", pour))


async def test_a_stream_comes_piece_by_piece(quiet: Runtime) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for n in range(3):
            yield b"%d " % n

    status, headers, content = await call(streaming(quiet, chunks()), "GET", "/a")
    assert (status, headers["content-type"], content) == (200, "text/event-stream", b"0 1 2 ")
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_stream_ends_when_nobody_reads_it(quiet: Runtime) -> None:
    ended: list[str] = []

    async def chunks() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0)
        finally:
            ended.append("closed")

    exchange = Exchange(streaming(quiet, chunks()), "GET", "/a")
    await exchange.until(lambda content: len(content) > 3)
    await exchange.leave()
    assert ended == ["closed"]


async def test_a_stream_that_a_stop_breaks_off_ends_without_an_error(quiet: Runtime) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"some"
        await asyncio.sleep(3600)

    exchange = Exchange(streaming(quiet, chunks()), "GET", "/a")
    await exchange.until(lambda content: content == b"some")
    assert not await exchange.cancel()
    assert quiet.streams.count() == 0


async def test_of_a_stream_only_the_head_is_sent_if_that_is_asked(quiet: Runtime) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"x"
            await asyncio.sleep(0)

    status, headers, content = await call(streaming(quiet, chunks()), "HEAD", "/a")
    assert (status, headers["content-type"], content) == (200, "text/event-stream", b"")


def test_json_is_taken_as_the_text_it_came_as() -> None:
    assert decode_text(msgspec.Raw(b'{"a":  1.0}'), "x") == '{"a":  1.0}'
    with pytest.raises(Invalid) as refused:
        decode_text(msgspec.Raw(b'"\xff"'), "x")
    assert refused.value.field == "x"


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://127.0.0.1:7878", 200), ("https://elsewhere.example", 403), ("null", 403)],
)
async def test_a_page_of_another_site_cannot_call(app: Any, origin: str, status: int) -> None:
    headers = {"origin": origin, "host": "127.0.0.1:7878"}
    answer = await call(app, "POST", "/orders/a", headers=headers)
    assert answer[0] == status
    if status == 403:
        assert error_of(answer) == (403, "forbidden", "Origin")
