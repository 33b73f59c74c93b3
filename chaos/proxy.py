"""Links between processes that can be broken, each by its name: a TCP proxy that misbehaves.

    async with Link("worker-1 to servers", targets) as link:
        link.behave(Delay(0.2))         # every piece comes late
        link.behave(Cut())              # connections are reset, and new ones, too
        link.behave(CutAfter(100))      # each is reset in the middle of a message
        link.behave(HalfOpen())         # nothing passes, and nobody is told
        link.behave(OneWay("answers"))  # requests pass and answers do not, or the reverse
        link.behave(Slow(2000))         # so many bytes a second
        link.mend()

Whatever a connection has lost is not sent later: it is reset when the link is mended, as a network
would do that has forgotten it.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 1 << 16
SLOW_STEPS_PER_S = 20
CONNECTIONS_MAX = 500
NO_LINGER = struct.pack("ii", 1, 0)

Way = Literal["requests", "answers"]


class Port(NamedTuple):
    """A place on this machine: a port of loopback."""

    number: int


Target = Port | Path


@dataclass(frozen=True)
class Well:
    """Everything passes."""


@dataclass(frozen=True)
class Delay:
    """Everything passes, late."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """Connections are reset, and nobody gets through."""


@dataclass(frozen=True)
class CutAfter:
    """Each connection is reset once so many more bytes have passed, mostly within a message."""

    count: int


@dataclass(frozen=True)
class HalfOpen:
    """Nothing passes, in no direction, and no end is told so."""


@dataclass(frozen=True)
class OneWay:
    """What goes this way is lost; the other way is well."""

    lost: Way


@dataclass(frozen=True)
class Slow:
    """So many bytes pass in a second."""

    bytes_per_s: int


Mood = Well | Delay | Cut | CutAfter | HalfOpen | OneWay | Slow


class _Pair:
    """One connection and what it is passed on by."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near, self.far = near, far
        self.bytes_left: int | None = None
        self.has_lost = False

    def reset(self) -> None:
        """Break it off at both ends, without a farewell."""
        _reset(self.near)
        _reset(self.far)


class Link:
    """A port of loopback that leads to the first target that answers, beginning with the next."""

    def __init__(
        self, name: str, targets: Sequence[Target], *, host: str = LOOPBACK, port: int = 0
    ) -> None:
        self.name = name
        self.targets = list(targets)
        self.host = host
        self.port = port
        self.passed_bytes = 0
        self.lost_bytes = 0
        self._mood: Mood = Well()
        self._mended = asyncio.Event()
        self._mended.set()
        self._next = 0
        self._pairs: dict[asyncio.Task[None], _Pair | None] = {}
        self._listening: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._meet, self.host, self.port)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listening is not None
        self._listening.close()
        self.reset()
        tasks = list(self._pairs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """Count who is connected now."""
        return len(self._pairs)

    def behave(self, mood: Mood) -> None:
        """Treat whatever comes from now on, on old connections too, by a mood."""
        self._mood = mood
        self._mended.clear()
        for pair in self._open_pairs():
            pair.bytes_left = mood.count if isinstance(mood, CutAfter) else None
        if isinstance(mood, Cut):
            self.reset()

    def mend(self) -> None:
        """Let everything pass; connections that have lost something are reset."""
        self._mood = Well()
        for pair in self._open_pairs():
            pair.bytes_left = None
            if pair.has_lost:
                pair.reset()
        self._mended.set()

    def reset(self) -> None:
        """Break every connection off."""
        for pair in self._open_pairs():
            pair.reset()

    def _open_pairs(self) -> list[_Pair]:
        return [pair for pair in self._pairs.values() if pair is not None]

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(self._mood, Cut) or len(self._pairs) >= CONNECTIONS_MAX:
            _reset(writer)
            return
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._pairs[task] = None
        task.add_done_callback(self._pairs.pop)

    async def _pass_on(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if isinstance(self._mood, HalfOpen):
                await self._mended.wait()  # whoever calls is let in by nobody
                _reset(near)
                return
            found = await self._connect()
            if found is None:
                return
            back, far = found
            pair = _Pair(near, far)
            if isinstance(self._mood, CutAfter):
                pair.bytes_left = self._mood.count
            self._pairs[task] = pair
            ways = [
                asyncio.create_task(self._pump(pair, "requests", reader, far)),
                asyncio.create_task(self._pump(pair, "answers", back, near)),
            ]
            try:
                await asyncio.wait(ways)
            finally:
                for way in ways:
                    way.cancel()
                far.transport.abort()
        finally:
            near.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the next target that answers; None if none does."""
        self._next += 1
        for offset in range(len(self.targets)):
            target = self.targets[(self._next + offset) % len(self.targets)]
            with suppress(OSError):
                if isinstance(target, Path):
                    return await asyncio.open_unix_connection(str(target))
                return await asyncio.open_connection(LOOPBACK, target.number)
        return None

    async def _pump(
        self, pair: _Pair, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        """Pass on what goes one way, as the mood of the moment is."""
        try:
            while piece := await source.read(PIECE_BYTES):
                if self._is_lost(way):
                    pair.has_lost = True
                    self.lost_bytes += len(piece)
                    continue
                if isinstance(self._mood, Delay):
                    await asyncio.sleep(self._mood.seconds)
                passes = piece if pair.bytes_left is None else piece[: pair.bytes_left]
                await self._write(passes, sink)
                if pair.bytes_left is not None:
                    pair.bytes_left -= len(passes)
                if len(passes) < len(piece):
                    self.lost_bytes += len(piece) - len(passes)
                    pair.reset()
                    return
            if isinstance(self._mood, HalfOpen | OneWay):
                await self._mended.wait()  # the end of a connection is lost as well
            if sink.can_write_eof():
                sink.write_eof()
        except OSError:
            pair.reset()

    def _is_lost(self, way: Way) -> bool:
        match self._mood:
            case HalfOpen():
                return True
            case OneWay(lost=lost):
                return lost == way
            case _:
                return False

    async def _write(self, piece: bytes, sink: asyncio.StreamWriter) -> None:
        """Write it at once, or in small steps where the link is slow."""
        step = PIECE_BYTES
        if isinstance(self._mood, Slow):
            step = max(1, self._mood.bytes_per_s // SLOW_STEPS_PER_S)
        for start in range(0, len(piece), step):
            sink.write(piece[start : start + step])
            await sink.drain()
            if isinstance(self._mood, Slow):
                await asyncio.sleep(1 / SLOW_STEPS_PER_S)
        self.passed_bytes += len(piece)


def _reset(end: asyncio.StreamWriter) -> None:
    """End a connection by RST, as a network does that knows nothing of it."""
    connection = end.get_extra_info("socket")
    if connection is not None and connection.family != socket.AF_UNIX:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    end.transport.abort()
