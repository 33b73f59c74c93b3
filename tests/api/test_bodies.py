"""Bodies of bytes, piece by piece."""

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.api.bodies import Octets, check_type
from holdfast.api.errors import UnsupportedMediaType
from holdfast.errors import Invalid, TooLarge


async def read(*messages: Mapping[str, Any], length: str = "5") -> list[bytes]:
    """Read a body of ten bytes at most, message by message."""
    waiting = list(messages)

    async def receive() -> Mapping[str, Any]:
        return waiting.pop(0)

    body = Octets({b"content-length": length.encode()}, receive)
    return [piece async for piece in body.read(10)]


def piece(content: bytes, *, more: bool = True) -> dict[str, Any]:
    """Make a piece of a body."""
    return {"type": "http.request", "body": content, "more_body": more}


async def test_it_is_read_as_it_comes() -> None:
    assert await read(piece(b"123"), piece(b"45", more=False)) == [b"123", b"45"]


async def test_it_is_bounded_by_what_it_says_and_by_what_comes() -> None:
    with pytest.raises(TooLarge, match="11"):
        await read(piece(b"12345678"), piece(b"9ab", more=False))
    with pytest.raises(TooLarge, match="11"):
        await read(length="11")


async def test_one_that_breaks_off_is_refused() -> None:
    with pytest.raises(Invalid, match="ended before its length"):
        await read(piece(b"12"), {"type": "http.disconnect"})


def test_another_type_than_the_one_that_is_wanted_is_refused() -> None:
    check_type({b"content-type": b"Text/Plain; charset=utf-8"}, b"text/plain")
    with pytest.raises(UnsupportedMediaType):
        check_type({}, b"text/plain")
