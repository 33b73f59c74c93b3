"""A real SQS endpoint on loopback, and the aids of the tests that talk to it.

A test module that wants the fixtures imports them, and lists them in its `__all__`.
"""

import asyncio
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from holdfast.services.waking.sqs import SqsPublisher
from holdfast.wire.sqs import queue_name
from holdfast.worker.claimed.sqs import SqsInbox

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

PATIENCE_SECONDS = 60.0
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1",
}


@dataclass
class Sqs:
    """An endpoint, and a prefix that no other test uses."""

    endpoint_url: str
    client: "SQSClient"
    prefix: str

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[SqsPublisher]:
        """A publisher, closed at the end."""
        publisher = SqsPublisher(prefix=self.prefix, endpoint_url=self.endpoint_url)
        try:
            yield publisher
        finally:
            await publisher.close()

    @asynccontextmanager
    async def inbox(
        self, *queues: str, visibility_seconds: int = 120, wait_seconds: int = 1
    ) -> AsyncIterator[SqsInbox]:
        """An inbox, closed at the end."""
        inbox = SqsInbox(
            queues,
            prefix=self.prefix,
            endpoint_url=self.endpoint_url,
            visibility_seconds=visibility_seconds,
            wait_seconds=wait_seconds,
        )
        try:
            yield inbox
        finally:
            await inbox.close()

    def url(self, queue: str) -> str:
        """Find the SQS queue that stands for a queue."""
        return self.client.get_queue_url(QueueName=queue_name(queue, self.prefix))["QueueUrl"]

    async def send(self, queue: str, body: str) -> None:
        """Send a message of any body, as a stranger could."""
        await asyncio.to_thread(
            lambda: self.client.send_message(QueueUrl=self.url(queue), MessageBody=body)
        )

    def hold(self, queue: str, seconds: int) -> None:
        """Receive a message as a worker would that is killed right afterwards."""
        url = self.url(queue)
        answer = self.client.receive_message(
            QueueUrl=url, VisibilityTimeout=seconds, WaitTimeSeconds=1
        )
        assert answer["Messages"]

    async def counts(self, queue: str) -> tuple[int, int]:
        """Count the messages that can be received, and those that somebody holds."""

        def ask() -> dict[Any, str]:
            answer = self.client.get_queue_attributes(
                QueueUrl=self.url(queue), AttributeNames=["All"]
            )
            return answer["Attributes"]

        found = await asyncio.to_thread(ask)
        visible = found["ApproximateNumberOfMessages"]
        return int(visible), int(found["ApproximateNumberOfMessagesNotVisible"])

    async def wait_for_counts(self, queue: str, visible: int, held: int) -> None:
        """Wait until a queue holds so many messages."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := await self.counts(queue)) != (visible, held):
            assert time.monotonic() < deadline, f"{queue} still holds {found}"
            await asyncio.sleep(0.05)


@pytest.fixture(name="aws")
def aws_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that open nothing, and none of the machine's own."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(name="sqs_endpoint", scope="session")
def sqs_endpoint_fixture() -> Iterator[str]:
    """The URL of an SQS that runs for all tests."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(name="sqs")
def sqs_fixture(sqs_endpoint: str, aws: None) -> Iterator[Sqs]:
    """SQS, with queues of the test's own."""
    with connected(sqs_endpoint) as sqs:
        yield sqs


@contextmanager
def connected(endpoint_url: str) -> Iterator[Sqs]:
    """A client of an endpoint, which need not be there yet."""
    import boto3

    client: SQSClient = boto3.Session().client("sqs", endpoint_url=endpoint_url)
    try:
        yield Sqs(endpoint_url, client, prefix=f"t{uuid4().hex[:8]}-")
    finally:
        client.close()


def find_free_port() -> int:
    """Find a port of loopback where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def sqs_process(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run an SQS that can be killed, and that has forgotten everything when it starts again."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not _listens(port):
                assert process.poll() is None, "the SQS process has ended"
                assert time.monotonic() < deadline, "the SQS process does not listen"
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


@contextmanager
def stranger(answer: bytes | Callable[[bytes], bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Listen, answer every call with bytes and hang up; yield the URL and the calls."""
    calls: list[bytes] = []

    def call_of(request: socket.socket) -> bytes:
        """Read head and body of a request, which may come in pieces."""
        call = b""
        while piece := request.recv(65536):
            call += piece
            head, _, body = call.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            if length and len(body) >= int(length[1]):
                break
        return call

    class Reply(socketserver.BaseRequestHandler):
        def setup(self) -> None:
            if call := call_of(self.request):
                calls.append(call)
                self.request.sendall(answer(call) if callable(answer) else answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Reply) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", calls
        finally:
            server.shutdown()
            thread.join()


def http(status: str, body: str) -> bytes:
    """Write an answer as SQS would."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
