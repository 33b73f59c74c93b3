"""Answers that go on: the output of a task, and events as they happen."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from holdfast.client.pauses import spread
from holdfast.client.transport import Transport
from holdfast.errors import Unavailable
from holdfast.model.work.log_limits import describe_left_out
from holdfast.wire.events import EventStreamQuery
from holdfast.wire.requests import LogQuery
from holdfast.wire.status import Event, LogChunk

FOLLOW_SECONDS = 10.0
PAUSE_SECONDS = 0.5
_decode = msgspec.json.Decoder(Event).decode


async def read_log(
    transport: Transport, task_id: str, query: LogQuery, *, patience: float
) -> AsyncGenerator[bytes, None]:
    """Read the output of an attempt; to follow is to go on until its end.

    Where the middle of a long one is not kept, a line says so.
    """
    query = msgspec.structs.replace(query, wait_ms=int(FOLLOW_SECONDS * 1000))
    last = b""
    while True:
        chunk = await transport.insist(
            "GET",
            f"/api/tasks/{task_id}/logs",
            LogChunk,
            query=query,
            seconds_max=patience + FOLLOW_SECONDS,
            patience=patience,
        )
        if chunk.left_out:
            yield describe_left_out(chunk.left_out, before=last)
        if chunk.content:
            yield chunk.content
            last = chunk.content[-1:]
        if chunk.is_complete or not (query.follow or chunk.content):
            return
        # Before there is an attempt, none can be named; from then on it stays the same one.
        attempt = None if chunk.attempt < 0 else chunk.attempt
        query = LogQuery(attempt, chunk.next_offset, query.follow, query.wait_ms)


async def follow_events(
    transport: Transport, query: EventStreamQuery, *, patience: float
) -> AsyncGenerator[Event, None]:
    """Follow events as they happen; a connection that breaks is taken up where it broke."""
    clock = asyncio.get_running_loop().time
    heard_at = clock()
    while True:
        pause = spread(PAUSE_SECONDS)
        token, text = query.after, b""
        lines = transport.follow("/api/events/stream", query, {})
        try:
            async with aclosing(lines):
                async for line in lines:
                    heard_at = clock()
                    name, _, value = line.strip().partition(b": ")
                    if name == b"id":
                        token = value.decode()
                    elif name == b"data":
                        text = value
                    elif not line.strip():  # the end of an event, or of a word that all is well
                        query = msgspec.structs.replace(query, after=token)
                        if text:
                            yield _decode(text)
                        text = b""
        except Unavailable as error:
            if clock() - heard_at > patience:
                raise
            pause = max(pause, spread(2 * (error.retry_after or 0.0)))
        await asyncio.sleep(pause)
