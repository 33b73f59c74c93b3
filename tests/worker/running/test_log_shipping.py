"""Output on its way to the server: as it is written, in order, until it is stored or refused."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.client.transport import Transport
from holdfast.worker.running.log_shipping import Shipper
from holdfast.worker.running.tail import LogTail
from tests.client.peer import Peer, Say, listening
from tests.waiting import eventually

STORED = Say(200, b'{"size": 0}')
BUSY = Say(503, b"{}")
REFUSED = Say(409, b'{"error": {"code": "lease_conflict", "message": "lost"}}')


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """Somebody in the server's place, who stores everything."""
    with listening() as peer:
        peer.script = [STORED]
        yield peer


class Output:
    """A file that is written to and sent."""

    def __init__(self, path: Path, transport: Transport) -> None:
        self.path = path
        self.gone = asyncio.Event()
        self.is_lost = False
        shipper = Shipper(transport, "7.0", 1, token=uuid4(), is_lost=lambda: self.is_lost)
        self.shipping = asyncio.create_task(shipper.ship(LogTail(path), self.gone))

    def write(self, text: bytes) -> None:
        """Write more."""
        with open(self.path, "ab") as file:
            file.write(text)

    async def end(self) -> None:
        """Write no more, and wait until all is sent."""
        self.gone.set()
        await asyncio.wait_for(self.shipping, 30)


@pytest.fixture
async def output(peer: Peer, tmp_path: Path) -> AsyncIterator[Output]:
    """Output that is being sent."""
    async with Transport(peer.url) as transport:
        output = Output(tmp_path / "output.log", transport)
        yield output
        output.shipping.cancel()
        await asyncio.wait([output.shipping])


def sent(peer: Peer) -> list[tuple[int, bytes]]:
    """List the pieces that have arrived."""
    bodies = [heard.json for heard in peer.heard]
    return [(body["offset"], base64.b64decode(body["content"])) for body in bodies]


async def test_output_is_sent_while_it_is_written_and_the_rest_at_the_end(
    output: Output, peer: Peer
) -> None:
    output.write(b"one\n")
    await eventually(lambda: sent(peer) == [(0, b"one\n")])
    output.write(b"two\n")
    output.gone.set()
    await output.end()
    assert b"".join(content for _, content in sent(peer)) == b"one\ntwo\n"
    assert peer.heard[0].json["task_id"] == "7.0"
    assert peer.heard[0].json["attempt"] == 1


async def test_a_command_without_output_sends_nothing(output: Output, peer: Peer) -> None:
    await output.end()
    assert peer.heard == []


async def test_what_could_not_be_stored_is_sent_again(output: Output, peer: Peer) -> None:
    peer.script = [Say(None), Say(503, b"{}"), STORED]
    output.write(b"one\n")
    await output.end()
    assert sent(peer) == [(0, b"one\n")] * 3


async def test_whoever_has_lost_the_lease_sends_no_more(output: Output, peer: Peer) -> None:
    peer.script = [REFUSED]
    output.write(b"one\n")
    await asyncio.wait_for(output.shipping, 30)
    assert len(peer.heard) == 1


async def test_nobody_insists_for_an_attempt_that_is_lost(output: Output, peer: Peer) -> None:
    output.is_lost = True
    output.write(b"one\n")
    await asyncio.wait_for(output.shipping, 30)
    assert peer.heard == []


async def test_output_that_cannot_be_read_is_given_up(output: Output, peer: Peer) -> None:
    output.path.mkdir()
    await asyncio.wait_for(output.shipping, 30)
    assert peer.heard == []


@pytest.mark.parametrize("steps", range(5))
async def test_a_cancel_is_not_lost_when_it_meets_the_end(
    output: Output, peer: Peer, steps: int
) -> None:
    peer.script = [BUSY]
    await asyncio.sleep(0)
    output.write(b"late\n")
    output.gone.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    output.shipping.cancel()
    await eventually(output.shipping.done)
    assert output.shipping.cancelled()
