"""Call an ASGI application without a socket."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

PATIENCE_SECONDS = 60.0
Answered = tuple[int, dict[str, str], bytes]


class Exchange:
    """One request that is on its way from the start, and what has been answered so far."""

    def __init__(
        self,
        app: Any,
        method: str,
        target: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        content = b"" if body is None else body
        if not isinstance(content, bytes):
            content = msgspec.json.encode(content)
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = b""
        self._left = asyncio.Event()
        self._heard = asyncio.Event()
        self._body: bytes | None = content
        named = {"content-type": "application/json"} if content else {}
        scope = _scope(method, target, {**named, **(headers or {})})
        self._task = asyncio.create_task(app(scope, self._receive, self._send))

    @property
    def is_over(self) -> bool:
        """Tell whether the application has said all it has to say."""
        return self._task.done()

    async def answer(self) -> Answered:
        """Wait for the whole answer."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._task
        return self.status, self.headers, self.content

    async def until(self, enough: Callable[[bytes], bool]) -> bytes:
        """Wait until enough of an answer has come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not enough(self.content):
                assert not self.is_over, f"the answer ended with {self.content!r}"
                self._heard.clear()
                await self._heard.wait()
        return self.content

    async def leave(self) -> None:
        """Go away without waiting for more; the application notices."""
        self._left.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._task

    async def cancel(self) -> bool:
        """End the application's side at once; says whether the cancel went through to us."""
        self._task.cancel()
        await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)
        return self._task.cancelled()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): text.decode() for name, text in message["headers"]}
        else:
            self.content += message.get("body", b"")
        self._heard.set()


async def call(
    app: Any,
    method: str,
    target: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """Send a request and wait for the answer: its status, headers and content."""
    return await Exchange(app, method, target, body=body, headers=headers).answer()


def _scope(method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
    }
