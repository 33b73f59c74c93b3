"""The routes of a server in the words of those who call them."""

import asyncio
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.routing import compile_path

from holdfast.api.app import ROUTES, build_app
from holdfast.api.openapi import build_document
from holdfast.ledger.news import News
from holdfast.services.runtime import Runtime
from holdfast.wire.answers import ErrorAnswer
from tests.api.asgi import Exchange, call
from tests.waiting import eventually

PATIENCE_SECONDS = 30.0


class Said(NamedTuple):
    """What a server said to a request: its status, and the JSON it sent."""

    status: int
    json: Any
    headers: dict[str, str]

    @property
    def error(self) -> Any:
        """Give the error, and make sure that it has the shape of all of them."""
        assert self.status >= 400, self
        assert set(self.json) == {"error"}, self
        error = self.json["error"]
        assert {"code", "message"} <= set(error) <= {"code", "message", "field", "details"}
        assert error["message"], self
        return error


class Face:
    """One server's routes."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.app = build_app(runtime)
        self.writes = 0
        self._writes_before = 0
        self._on_commit = runtime.ledger.on_commit
        runtime.ledger.on_commit = self._count

    async def get(self, target: str, **headers: str) -> Said:
        """Read something."""
        said = _said(await call(self.app, "GET", target, headers=_names(headers)))
        return _as_declared("GET", target, said)

    async def list_all(self, target: str, field: str, *, pages_max: int = 100) -> list[Any]:
        """Read a list to its end, however many pages it takes."""
        found: list[Any] = []
        joint = "&" if "?" in target else "?"
        token = ""
        for _ in range(pages_max):
            page = (await self.get(f"{target}{token}")).json
            found += page[field]
            if page["next_page_token"] is None:
                return found
            token = f"{joint}page_token={page['next_page_token']}"
        raise AssertionError(f"{target} has more than {pages_max} pages")

    async def post(self, target: str, body: Any = None, **headers: str) -> Said:
        """Ask for something."""
        said = _said(await call(self.app, "POST", target, body=body, headers=_names(headers)))
        return _as_declared("POST", target, said)

    async def change(self, method: str, target: str, body: Any = None, **headers: str) -> Said:
        """Ask for something by another method."""
        said = _said(await call(self.app, method, target, body=body, headers=_names(headers)))
        return _as_declared(method, target, said)

    def begin(self, target: str, body: Any) -> Exchange:
        """Ask for something that may take long."""
        return Exchange(self.app, "POST", target, body=body)

    async def submit(self, queue: str | None = "q", **fields: Any) -> str:
        """Submit a job; returns its id."""
        spec = {"entrypoint": {"function": "app:work"}, **fields}
        if queue is not None:
            spec["queue"] = queue
        said = await self.post("/api/jobs", spec)
        assert said.status == 201, said
        return str(said.json["job_id"])

    async def claim(self, count: int = 1, worker: str = "w1", **fields: Any) -> list[Any]:
        """Claim tasks from the queue `q`, unless another way is given."""
        body = {"worker_id": worker, **fields}
        if "task_id" not in body:
            body = {"queues": ["q"], "max_tasks": count} | body
        said = await self.post("/internal/task-claim", body)
        assert said.status == 200, said
        return list(said.json["claims"])

    def poll(self, worker: str = "w1", count: int = 1, **fields: Any) -> Exchange:
        """Wait a minute for tasks of the queue `q`."""
        body = {"worker_id": worker, "queues": ["q"], "max_tasks": count, "wait_ms": 60_000}
        self._writes_before = self.writes
        return self.begin("/internal/task-claim", body | fields)

    async def polling(self, queue: str = "q") -> None:
        """Wait until the last poll listens for a queue, and has looked at it in vain."""
        await eventually(lambda: queue in self.runtime.doorbells.names("queue"))
        await eventually(lambda: self.writes > self._writes_before)

    async def complete(self, claim: Any, status: str = "succeeded", **fields: Any) -> Said:
        """Say how an attempt ended."""
        body = {"worker_id": "w1", **fence(claim), "status": status, **fields}
        return await self.post("/internal/task-complete", body)

    async def beat(self, claim: Any, **fields: Any) -> Said:
        """Renew one lease."""
        return await self.post("/internal/heartbeat", {"worker_id": "w1", **fence(claim), **fields})

    def _count(self, news: News) -> None:
        self.writes += 1
        self._on_commit(news)


def fence(claim: Any) -> dict[str, Any]:
    """Take from a claim what its holder must present."""
    return {name: claim[name] for name in ("task_id", "attempt", "lease_token")}


def lease_header(claim: Any) -> str:
    """Write a lease the way a running task shows it."""
    return f"{claim['task_id']} {claim['attempt']} {claim['lease_token']}"


async def heard(exchange: Exchange) -> Said:
    """Wait for the answer to something begun; shorter than the longest poll would last."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return _said(await exchange.answer())


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}


def _as_declared(method: str, target: str, said: Said) -> Said:
    """Make sure that an answer has a status and a shape that its route declares."""
    path = unquote(target.partition("?")[0])
    found = (e for e in ROUTES if e.method == method and compile_path(e.path)[0].match(path))
    route = next(found, None)
    if route is not None and route.content_type == "application/json":
        operation = build_document([route])["paths"].popitem()[1][method.lower()]
        assert str(said.status) in operation["responses"], said
        shape = route.also.get(said.status, route.returns)
        shape = ErrorAnswer if said.status >= 400 else shape
        msgspec.json.decode(msgspec.json.encode(said.json), type=shape)
    return said


def _said(answer: tuple[int, dict[str, str], bytes]) -> Said:
    status, headers, content = answer
    is_json = headers.get("content-type") == "application/json"
    return Said(status, msgspec.json.decode(content) if is_json else content, headers)
