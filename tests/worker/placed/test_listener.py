"""Calls that reach a worker: who is answered, and what the others get."""

from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from holdfast.operations.placed.worker_heartbeats import Prepared
from holdfast.services.leading.reach import Reach
from holdfast.services.leading.worker_calls import CallFailed, send
from holdfast.tls.calling import open_calling
from holdfast.tls.watching import WatchedContext
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.cluster import (
    HEARTBEAT_PATH,
    SECRET_HEADER,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.worker.placed.incarnation import CallRefused
from holdfast.worker.placed.listener import ListenerTls, advertise, listen_for_calls
from tests.certificates import TestAuthority

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


async def test_by_tls_only_the_certificate_of_a_server_is_answered(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path / "ca")
    tls = ListenerTls(authority.issue("w", "127.0.0.1", role="worker"), authority.ca_file)
    prepared = Prepared("w", "", SECRET, (1, 2), False, [])
    leader = open_calling(authority.ca_file, authority.issue("leader"))
    other = open_calling(authority.ca_file, authority.issue("other", role="worker"))
    nobody = open_calling(authority.ca_file)
    foreign = TestAuthority(tmp_path / "foreign")
    stranger = open_calling(authority.ca_file, foreign.issue("leader"))
    mistaken = open_calling(foreign.ca_file, authority.issue("third"))
    async with listen_for_calls("127.0.0.1", 0, secret=lambda: SECRET, obey=obey, tls=tls) as at:
        assert at.startswith("https://127.0.0.1:")

        async def call_as(caller: WatchedContext, address: str = at) -> bytes:
            reach = Reach(tls=caller)
            async with reach.open_lines(60.0, 9) as lines:
                call = prepared._replace(address=address)
                return await send(lines.to(address), call, GOOD, reach=reach)

        assert b'"worker_id":"w"' in await call_as(leader)
        with pytest.raises(CallFailed, match="it answered 403, forbidden"):
            await call_as(other)
        for caller in (nobody, stranger):
            with pytest.raises(CallFailed):
                await call_as(caller)
        with pytest.raises(CallFailed, match=r"the certificate of https://127.* was refused"):
            await call_as(mistaken)
        with pytest.raises(CallFailed, match="call it by a name that is in it"):
            await call_as(leader, at.replace("127.0.0.1", "localhost"))


def test_a_host_may_be_known_by_another_name() -> None:
    assert advertise("https://0.0.0.0:7900", "ten.example") == "https://ten.example:7900"
    assert advertise("https://[::]:7900", "[2001:db8::1]") == "https://[2001:db8::1]:7900"
    assert advertise("http://127.0.0.1:7900", None) == "http://127.0.0.1:7900"
