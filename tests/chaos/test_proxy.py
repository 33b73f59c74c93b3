"""Each way in which a link can be broken, on real connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from chaos.proxy import Cut, CutAfter, Delay, HalfOpen, Link, OneWay, Port, Slow
from tests.waiting import eventually

WORD = b"hello"


class Ends(NamedTuple):
    """A connection through a link to somebody who says everything again."""

    link: Link
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    heard: bytearray

    async def say(self, word: bytes = WORD) -> bytes:
        """Say something and read as much."""
        self.writer.write(word)
        return await self.reader.readexactly(len(word))


@asynccontextmanager
async def an_echo(heard: bytearray) -> AsyncIterator[Port]:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(1 << 16):
                heard.extend(piece)
                writer.write(piece)
        except ConnectionError:
            pass  # what the link has reset
        finally:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield Port(server.sockets[0].getsockname()[1])
    finally:
        server.close()


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    """A connection that is well."""
    heard = bytearray()
    async with an_echo(heard) as port, Link("a link", [port]) as link:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        ends = Ends(link, reader, writer, heard)
        assert await ends.say() == WORD
        yield ends
        writer.transport.abort()


async def test_what_is_well_passes_both_ways(ends: Ends) -> None:
    assert await ends.say(b"x" * 300_000) == b"x" * 300_000
    assert ends.link.passed_bytes == 2 * (300_000 + len(WORD))


async def test_a_delay_loses_nothing(ends: Ends) -> None:
    ends.link.behave(Delay(0.05))
    begun = asyncio.get_running_loop().time()
    assert await ends.say() == WORD
    assert asyncio.get_running_loop().time() - begun >= 0.1


async def test_a_slow_link_loses_nothing(ends: Ends) -> None:
    ends.link.behave(Slow(1000))
    assert await ends.say(b"y" * 120) == b"y" * 120


async def test_a_cut_resets_who_is_connected_and_whoever_comes(ends: Ends) -> None:
    ends.link.behave(Cut())
    with pytest.raises(ConnectionError):
        await ends.reader.readexactly(1)
    reader, writer = await asyncio.open_connection("127.0.0.1", ends.link.port)
    with pytest.raises(ConnectionError):
        await reader.readexactly(1)
    writer.close()
    ends.link.mend()
    reader, writer = await asyncio.open_connection("127.0.0.1", ends.link.port)
    writer.write(WORD)
    assert await reader.readexactly(len(WORD)) == WORD
    writer.close()


async def test_a_message_is_cut_in_the_middle(ends: Ends) -> None:
    before = len(ends.heard)
    ends.link.behave(CutAfter(3))
    ends.writer.write(WORD)
    with pytest.raises(ConnectionError):
        await ends.reader.readexactly(len(WORD))
    assert bytes(ends.heard[before:]) == WORD[:3]
    assert ends.link.lost_bytes == 2


async def test_of_one_way_the_other_is_well(ends: Ends) -> None:
    ends.link.behave(OneWay("answers"))
    before = len(ends.heard)
    ends.writer.write(WORD)
    await eventually(lambda: bytes(ends.heard[before:]) == WORD)
    await eventually(lambda: ends.link.lost_bytes == len(WORD))
    ends.link.mend()  # it has lost something: nobody may take it for whole
    with pytest.raises(ConnectionError):
        await ends.reader.readexactly(1)


async def test_a_lost_request_is_never_heard(ends: Ends) -> None:
    ends.link.behave(OneWay("requests"))
    before = len(ends.heard)
    ends.writer.write(WORD)
    await eventually(lambda: ends.link.lost_bytes == len(WORD))
    assert len(ends.heard) == before


async def test_a_half_open_connection_says_nothing_and_lets_nobody_in(ends: Ends) -> None:
    ends.link.behave(HalfOpen())
    before = len(ends.heard)
    ends.writer.write(WORD)
    await eventually(lambda: ends.link.lost_bytes == len(WORD))
    reader, writer = await asyncio.open_connection("127.0.0.1", ends.link.port)
    writer.write(WORD)
    await eventually(lambda: ends.link.connections == 2)
    assert len(ends.heard) == before
    assert not ends.reader.at_eof()
    ends.link.mend()
    with pytest.raises(ConnectionError):
        await reader.readexactly(1)
    with pytest.raises(ConnectionError):
        await ends.reader.readexactly(1)
    writer.close()


async def test_what_lost_nothing_goes_on_when_the_link_is_mended(ends: Ends) -> None:
    ends.link.behave(HalfOpen())
    ends.link.mend()
    assert await ends.say() == WORD


async def test_a_link_leads_to_a_target_that_is_there(ends: Ends) -> None:
    with_nobody = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    nobody = Port(with_nobody.sockets[0].getsockname()[1])
    with_nobody.close()
    await with_nobody.wait_closed()
    ends.link.targets.append(nobody)
    for _ in range(4):
        reader, writer = await asyncio.open_connection("127.0.0.1", ends.link.port)
        writer.write(WORD)
        assert await reader.readexactly(len(WORD)) == WORD
        writer.close()


async def test_a_link_listens_where_it_is_told() -> None:
    async with (
        an_echo(bytearray()) as port,
        Link("a call", [port], host="127.0.0.2", port=port.number) as link,
    ):
        assert link.port == port.number
        reader, writer = await asyncio.open_connection("127.0.0.2", port.number)
        writer.write(WORD)
        assert await reader.readexactly(len(WORD)) == WORD
        writer.close()
