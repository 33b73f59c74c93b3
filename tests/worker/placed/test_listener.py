"""Calls that reach a worker: who is answered, and what the others get."""

from typing import Any

import aiohttp
import msgspec
import pytest

from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.cluster import (
    HEARTBEAT_PATH,
    SECRET_HEADER,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.worker.placed.incarnation import CallRefused
from holdfast.worker.placed.listener import listen_for_calls

SECRET = "a secret"
GOOD = msgspec.json.encode(WorkerHeartbeatRequest(worker_id="w", epoch=1, number=2))


def obey(request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
    """Answer, unless the call is another's."""
    if request.worker_id != "w":
        raise CallRefused("this is w")
    return WorkerHeartbeatAnswer(worker_id="w", epoch=request.epoch, number=request.number)


async def call(address: str, body: bytes, secret: str | None = SECRET) -> tuple[int, bytes]:
    """Call a worker."""
    headers = {} if secret is None else {SECRET_HEADER: secret}
    async with (
        aiohttp.ClientSession() as session,
        session.post(address + HEARTBEAT_PATH, data=body, headers=headers) as response,
    ):
        return response.status, await response.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_whoever_knows_the_secret_is_answered(host: str) -> None:
    async with listen_for_calls(host, 0, secret=lambda: SECRET, obey=obey) as address:
        status, text = await call(address, GOOD)
    answer = msgspec.json.decode(text, type=WorkerHeartbeatAnswer)
    assert (status, answer.worker_id, answer.epoch, answer.number) == (200, "w", 1, 2)


@pytest.mark.parametrize(
    ("body", "secret", "status", "code"),
    [
        (GOOD, None, 403, "forbidden"),
        (GOOD, "another", 403, "forbidden"),
        (GOOD, "", 403, "forbidden"),
        (b"{", SECRET, 400, "invalid"),
        (b'{"worker_id": 1, "epoch": 1, "number": 1}', SECRET, 400, "invalid"),
        (b"\xff", SECRET, 400, "invalid"),
        (GOOD.replace(b'"w"', b'"v"'), SECRET, 409, "conflict"),
    ],
)
async def test_others_are_told_why_not(body: bytes, secret: Any, status: int, code: str) -> None:
    async with listen_for_calls("127.0.0.1", 0, secret=lambda: SECRET, obey=obey) as address:
        answered, text = await call(address, body, secret)
    assert answered == status
    assert msgspec.json.decode(text, type=ErrorAnswer).error.code == code


async def test_the_secret_is_that_of_the_moment() -> None:
    secrets = ["first"]
    async with listen_for_calls("127.0.0.1", 0, secret=lambda: secrets[-1], obey=obey) as address:
        assert (await call(address, GOOD, "first"))[0] == 200
        secrets.append("second")
        assert (await call(address, GOOD, "first"))[0] == 403
        assert (await call(address, GOOD, "second"))[0] == 200
