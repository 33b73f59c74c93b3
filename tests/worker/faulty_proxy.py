"""A proxy between worker and server that can be cut, and that can hold back or lose answers."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

CHUNK_BYTES = 1 << 16


class FaultyProxy:
    """Passes bytes on to a server; `url` is its near end."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname, parts.port
        self._is_cut = False
        self._loses_answers = False
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._rewriting = (b"", b"")
        self._rewriting_requests = (b"", b"")
        self._calls: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._listening: asyncio.Server | None = None
        self.url = ""
        self.answers_lost = 0
        self.rewritten: list[bytes] = []

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.refuse()

    @property
    def requests_rewritten(self) -> int:
        """Count the requests into which other words were put, or the same."""
        return len(self.rewritten)

    async def cut(self) -> None:
        """Break every connection, and take no new one."""
        self._is_cut = True
        await self._hang_up()

    async def refuse(self) -> None:
        """Break every connection, and listen no more: nobody can connect."""
        assert self._listening is not None
        self._listening.close()
        await self.cut()  # also whoever was accepted a moment ago

    def lose_answers(self) -> None:
        """Let requests through; the first bytes of any answer end the connection instead."""
        self._loses_answers = True

    def hold_answers(self) -> None:
        """Let requests through; answers wait until it is mended."""
        self._is_open.clear()

    def rewrite(self, text: bytes, other: bytes) -> None:
        """Put other words of the same length into every answer."""
        assert len(text) == len(other)
        self._rewriting = (text, other)

    def rewrite_requests(self, text: bytes, other: bytes) -> None:
        """Put other words of the same length into every request, and keep those that have them."""
        assert len(text) == len(other)
        self._rewriting_requests = (text, other)

    def mend(self) -> None:
        """Pass everything on again."""
        self._is_cut = self._loses_answers = False
        self._is_open.set()

    async def _hang_up(self) -> None:
        calls = dict(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for near in calls.values():  # a call that is cancelled before its first step closes nothing
            await _close(near)

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        call = asyncio.create_task(self._pass_on(reader, writer))
        self._calls[call] = writer
        call.add_done_callback(self._calls.pop)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            asking = asyncio.create_task(self._ask(reader, far_writer))
            try:
                await self._answer(far_reader, writer)
            finally:
                asking.cancel()
                await _close(far_writer)
        except OSError:
            return
        finally:
            await _close(writer)

    async def _ask(self, near: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await near.read(CHUNK_BYTES):
                text, other = self._rewriting_requests
                if text and text in content:
                    content = content.replace(text, other)
                    self.rewritten.append(content)
                far.write(content)
                await far.drain()
            far.close()

    async def _answer(self, far: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        while content := await far.read(CHUNK_BYTES):
            if self._loses_answers:
                self.answers_lost += 1
                return
            await self._is_open.wait()
            near.write(content.replace(*self._rewriting) if self._rewriting[0] else content)
            await near.drain()


async def _close(end: asyncio.StreamWriter) -> None:
    end.close()
    with suppress(OSError, asyncio.CancelledError):
        await end.wait_closed()
