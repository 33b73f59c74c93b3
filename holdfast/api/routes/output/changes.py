"""The stream that names, as it happens, the jobs that have changed."""

import asyncio
import re
from collections.abc import AsyncGenerator

import msgspec

from holdfast.api.route import Call, Route, Stream
from holdfast.errors import Invalid, Unavailable
from holdfast.model.access.roles import Role
from holdfast.services.changes import TICK_SECONDS, Tick
from holdfast.services.runtime import Runtime
from holdfast.wire.events import ChangeStreamQuery
from holdfast.wire.status import ChangedJobs

KEEP_ALIVE_SECONDS = 15.0
_TRANSACTION = re.compile(r"[0-9]{1,18}")
_encode = msgspec.json.Encoder().encode


async def follow_changes(call: Call[None, ChangeStreamQuery]) -> Stream:
    """Follow which jobs change: at first all of them, or those changed after an id seen before."""
    last_seen = call.headers.get(b"last-event-id", b"").decode("latin-1")
    field, text = ("Last-Event-ID", last_seen) if last_seen else ("after", call.query.after)
    if text is not None and not _TRANSACTION.fullmatch(text):
        raise Invalid(field, f"{text[:50]!r} is not the id of a message; give one as it came")
    return Stream(pour(call.runtime, None if text is None else int(text)))


async def pour(
    runtime: Runtime, after: int | None, *, keep_alive_seconds: float = KEEP_ALIVE_SECONDS
) -> AsyncGenerator[bytes, None]:
    """Write a message for each tick, and a comment now and then if there is none."""
    clock = asyncio.get_running_loop().time
    quiet_since = clock()
    yield b": changes follow\n\n"
    while not runtime.is_stopping:
        try:
            ticks = await runtime.changes.read(after)
        except Unavailable:
            # Whoever follows connects again and goes on where it was.
            return
        if ticks:
            yield b"".join(map(_write_tick, ticks))
            after, quiet_since = ticks[-1].end, clock()
        elif clock() - quiet_since >= keep_alive_seconds:
            yield b": nothing new\n\n"
            quiet_since = clock()
        await asyncio.sleep(TICK_SECONDS)


def _write_tick(tick: Tick) -> bytes:
    changed = ChangedJobs([str(job_id) for job_id in tick.job_ids], tick.all)
    return b"id: %d\ndata: %b\n\n" % (tick.end, _encode(changed))


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/changes/stream",
        follow_changes,
        None,
        Role.READ,
        query=ChangeStreamQuery,
        content_type="text/event-stream",
    ),
)
