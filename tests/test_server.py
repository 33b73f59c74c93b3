"""A real server on a real port: it answers, stops without dropping anything, refuses early."""

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import pytest

from holdfast import server as server_module
from holdfast.client.transport import Transport
from holdfast.errors import Invalid, Refused, Unavailable
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.server import GRACE_SECONDS, Address, RunningServer, run_until_signalled, serve
from holdfast.services.runtime import Options
from holdfast.tls.calling import CertificateRefused
from holdfast.tls.serving import ServerTls
from tests.certificates import TestAuthority, put
from tests.waiting import eventually
from tests.world import World

JOB = {"entrypoint": {"function": "app:work"}, "queue": "q"}
POLL = {"worker_id": "w1", "queues": ["q"], "wait_ms": 60_000}
BEAT = {"worker_id": "w1", "leases": [], "wait_ms": 60_000}
ANYWHERE = Address(port=0)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps its connections open."""
    async with aiohttp.ClientSession() as session:
        yield session


async def post(http: aiohttp.ClientSession, url: str, body: Any = None) -> tuple[int, Any]:
    """Ask for something over the wire."""
    async with http.post(url, json=body) as response:
        return response.status, await response.json()


def port_of(server: RunningServer) -> int:
    port = urlsplit(server.url).port
    assert port is not None
    return port


async def assert_closed(server: RunningServer) -> None:
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port_of(server))


async def test_a_server_answers_from_the_first_moment(
    database_url: str, http: aiohttp.ClientSession
) -> None:
    async with serve(Options(database_url), ANYWHERE) as server:
        async with http.get(f"{server.url}/healthz") as response:
            assert (response.status, await response.json()) == (200, {"status": "ok"})
            assert "server" not in response.headers
        status, job = await post(http, f"{server.url}/api/jobs", JOB)
        assert (status, job["num_tasks"]) == (201, 1)
        async with http.head(f"{server.url}/healthz") as response:
            assert (response.status, await response.read()) == (200, b"")
    await assert_closed(server)


async def test_what_is_in_flight_is_answered_before_the_port_closes(
    database_url: str, http: aiohttp.ClientSession, world: World
) -> None:
    holder = await asyncpg.connect(database_url)
    async with serve(Options(database_url), ANYWHERE) as server:
        await post(http, f"{server.url}/api/jobs", JOB)
        _, answer = await post(http, f"{server.url}/internal/task-claim", POLL)
        [claim] = answer["claims"]
        names = ("task_id", "attempt", "lease_token")
        end = {"worker_id": "w1", "status": "succeeded", **{n: claim[n] for n in names}}
        lock = holder.transaction()
        await lock.start()
        await holder.execute("lock table holdfast.tasks in exclusive mode")
        call = asyncio.create_task(post(http, f"{server.url}/internal/task-complete", end))
        waiting = "select 1 from pg_locks where not granted"
        await eventually(lambda: world.clock.fetch(waiting))
        asyncio.get_running_loop().create_task(_let_go(lock, server))
    await holder.close()
    assert await call == (200, {"results": [{"task_id": claim["task_id"], "accepted": True}]})
    await assert_closed(server)


async def _let_go(lock: Any, server: RunningServer) -> None:
    """Hold the lock until the server is stopping, and then let it finish."""
    await eventually(lambda: server.runtime.is_stopping)
    await lock.rollback()


async def test_long_polls_end_at_once_and_nothing_is_handed_out(
    database_url: str, http: aiohttp.ClientSession, world: World
) -> None:
    async with serve(Options(database_url), ANYWHERE) as server:
        url = f"{server.url}/internal"
        poll = asyncio.create_task(post(http, f"{url}/task-claim", POLL))
        beat = asyncio.create_task(post(http, f"{url}/heartbeat", BEAT))
        doorbells = server.runtime.doorbells
        await eventually(lambda: "q" in doorbells.names("queue"))
        await eventually(lambda: "w1" in doorbells.names("worker"))
    status, answer = await poll
    assert (status, answer["claims"]) == (200, [])
    assert await beat == (200, {"leases": [], "cancel": [], "drain": False})
    job_id = await world.submit()
    await assert_closed(server)
    assert await world.story(job_id) == []


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/internal/task-claim", POLL, {"claims": []}),
        ("/internal/heartbeat", BEAT, {"leases": [], "cancel": []}),
    ],
)
async def test_who_was_let_in_before_the_stop_and_listens_after_it_does_not_wait(
    database_url: str, path: str, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    content = json.dumps(body).encode()
    async with serve(Options(database_url), ANYWHERE) as server:
        reader, writer = await let_in(server, path, content)
        asyncio.get_running_loop().create_task(_send_late(writer, content, server))
    status, answer = await read_last(reader)
    writer.close()
    assert status == 200
    assert expected.items() <= answer.items()


async def let_in(
    server: RunningServer, path: str, content: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of a request, and wait until the server asks for the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    return reader, writer


async def _send_late(writer: asyncio.StreamWriter, content: bytes, server: RunningServer) -> None:
    await eventually(lambda: server.runtime.is_stopping)
    writer.write(content)


async def read_last(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Read the last answer of a connection."""
    head, _, text = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(text)


async def test_what_takes_longer_than_a_stop_may_is_answered_with_our_words(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "GRACE_SECONDS", 0.2)
    async with serve(Options(database_url), ANYWHERE) as server:
        reader, writer = await let_in(server, "/api/jobs", b"a body that never comes")
    status, answer = await read_last(reader)
    writer.close()
    assert (status, answer["error"]["code"]) == (503, "stopping")
    assert "Traceback" not in caplog.text


async def test_who_connects_while_a_server_stops_does_not_hold_it_up(
    database_url: str, tmp_path: Path
) -> None:
    authority = TestAuthority(tmp_path / "ca")
    tls = ServerTls(authority.issue("s", "localhost"))
    async with serve(Options(database_url), Address(port=0, tls=tls)) as server:
        # Accepted, and not yet a connection: it has not said a word of TLS.
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        asyncio.get_running_loop().create_task(_speak_late(writer, authority, server))
        began_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began_at < GRACE_SECONDS
    assert (await read_last(reader))[0] == 503
    writer.close()


async def _speak_late(
    writer: asyncio.StreamWriter, authority: TestAuthority, server: RunningServer
) -> None:
    """Finish connecting when nobody is accepted any more."""
    await eventually(lambda: is_refused(server))
    context = ssl.create_default_context(cafile=authority.ca_file)
    await writer.start_tls(context, server_hostname="localhost")
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def is_refused(server: RunningServer) -> bool:
    """Look whether a server accepts nobody any more."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_a_server_that_is_stopped_before_it_began_leaves_nothing_open(
    database_url: str,
) -> None:
    async with serve(Options(database_url), ANYWHERE) as server:
        pass
    await assert_closed(server)


async def test_a_block_that_fails_stops_the_server_too(database_url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with serve(Options(database_url), ANYWHERE) as server:
            raise ZeroDivisionError
    await assert_closed(server)


async def test_two_servers_on_one_database_wake_each_others_workers(
    database_url: str, http: aiohttp.ClientSession
) -> None:
    options = Options(database_url)
    async with serve(options, ANYWHERE) as one, serve(options, ANYWHERE) as other:
        poll = asyncio.create_task(post(http, f"{one.url}/internal/task-claim", POLL))
        await eventually(lambda: "q" in one.runtime.doorbells.names("queue"))
        _, job = await post(http, f"{other.url}/api/jobs", JOB)
        status, answer = await poll
    assert status == 200
    assert [claim["task_id"] for claim in answer["claims"]] == [f"{job['job_id']}.0"]


async def test_a_client_that_hangs_up_takes_nothing(
    database_url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(Options(database_url), ANYWHERE) as server:
        claim, looked = server.runtime.writers.claim, asyncio.Event()

        async def look(request: ClaimRequest) -> list[Claim]:
            claims = await claim(request)
            looked.set()
            return claims

        monkeypatch.setattr(server.runtime.writers, "claim", look)
        async with aiohttp.ClientSession() as session:
            poll = asyncio.create_task(post(session, f"{server.url}/internal/task-claim", POLL))
            # A look that is on its way to Postgres is not called back: it might find the job.
            await looked.wait()
            poll.cancel()
            await asyncio.wait([poll])
        await eventually(lambda: "q" not in server.runtime.doorbells.names("queue"))
        job_id = await world.submit()
        async with aiohttp.ClientSession() as session:
            quick = {**POLL, "wait_ms": 0}
            _, answer = await post(session, f"{server.url}/internal/task-claim", quick)
    assert [claim["task_id"] for claim in answer["claims"]] == [f"{job_id}.0"]


async def test_a_body_that_says_it_is_huge_is_refused_before_it_is_sent(
    database_url: str,
) -> None:
    async with serve(Options(database_url), ANYWHERE) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        writer.write(
            b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99999999999\r\n\r\n"
        )
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert line.split()[1] == b"413"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "", "2001:db8::1"])
async def test_other_machines_are_not_served_without_tokens(host: str) -> None:
    with pytest.raises(Invalid, match="is not a loopback address; use 127") as refused:
        async with serve(Options("postgresql://127.0.0.1:1/nowhere"), Address(host, 0)):
            pass
    assert refused.value.field == "host"


async def test_with_a_certificate_it_speaks_tls_and_answers_to_its_names(
    database_url: str, tmp_path: Path
) -> None:
    authority = TestAuthority(tmp_path / "ca")
    used = authority.issue("s", "127.0.0.1", "old.example")
    tls = ServerTls(used)
    hosts = {"old.example": 200, "127.0.0.1": 200, "other.example": 403}
    async with (
        serve(Options(database_url), Address(port=0, tls=tls)) as server,
        Transport(server.url, ca_file=str(authority.ca_file)) as transport,
        Transport(server.url) as stranger,
    ):
        assert server.url.startswith("https://127.0.0.1:")
        for host, status in hosts.items():
            call = transport.call("GET", "/healthz", dict[str, str], headers={"Host": host})
            if status == 200:
                assert await call == {"status": "ok"}
            else:
                with pytest.raises(Refused):
                    await call
        with pytest.raises(CertificateRefused, match=r"of https://127.* name the file of the CA"):
            await stranger.call("GET", "/healthz", dict[str, str])
        put(authority.issue("n", "127.0.0.1", "new.example", "*.jobs.example", days=20), used)
        await tls.look()
        for host in ("new.example", "one.jobs.example:1"):
            answer = await transport.call("GET", "/healthz", dict[str, str], headers={"Host": host})
            assert answer == {"status": "ok"}
        for host in ("old.example", "jobs.example", "a.b.jobs.example", ".jobs.example"):
            with pytest.raises(Refused):
                await transport.call("GET", "/healthz", dict[str, str], headers={"Host": host})
        scraped = (await server.runtime.scrape()).decode()
    [line] = [line for line in scraped.splitlines() if line.startswith("holdfast_tls_")]
    assert float(line.split()[1]) == tls.expires_at.timestamp()


async def test_a_port_that_is_taken_is_a_clear_error(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
            async with serve(Options(database_url), Address(port=port)):
                pass
    with pytest.raises(Unavailable, match=r"cannot listen on .*:70000"):
        async with serve(Options(database_url), Address(port=70_000)):
            pass


async def test_without_postgres_there_is_no_server_and_no_port(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot connect to Postgres"):
        async with serve(Options("postgresql://127.0.0.1:1/nowhere"), Address(port=port)):
            pass
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_ends_the_wait_and_a_second_is_borne(number: signal.Signals) -> None:
    waiting = asyncio.create_task(run_until_signalled())
    await asyncio.sleep(0)
    try:
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGTERM)
        assert await waiting == number
    finally:
        loop = asyncio.get_running_loop()
        removed = [loop.remove_signal_handler(n) for n in (signal.SIGINT, signal.SIGTERM)]
        assert removed == [True, True]


def test_a_server_may_open_as_many_files_as_it_is_allowed() -> None:
    script = (
        "import resource as r; hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; "
        "r.setrlimit(r.RLIMIT_NOFILE, (64, hard)); "
        "from holdfast.server import FILES_MAX, allow_many_files; allow_many_files(); "
        "soft = r.getrlimit(r.RLIMIT_NOFILE)[0]; "
        "assert soft == (FILES_MAX if hard == r.RLIM_INFINITY else min(hard, FILES_MAX)), soft; "
        "allow_many_files(); assert r.getrlimit(r.RLIMIT_NOFILE)[0] == soft"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
