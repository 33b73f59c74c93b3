"""Bodies of requests, read while they come, and bounded."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.errors import UnsupportedMediaType
from holdfast.errors import Invalid, TooLarge
from holdfast.wire.bundles import OCTETS

BODY_BYTES_MAX = 64 << 20
STRANGERS_BODY_BYTES_MAX = 64 << 10  # of those who have not said who they are
OCTETS_TYPE = OCTETS.encode()
Receive = Callable[[], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Octets:
    """A body of plain bytes that is read while it comes; declared as `body=Octets`."""

    headers: dict[bytes, bytes]
    receive: Receive

    def read(self, bytes_max: int) -> AsyncGenerator[bytes, None]:
        """Read it piece by piece; raises TooLarge where it exceeds the limit, or says it will."""
        return _read_pieces(self.headers, self.receive, bytes_max)


async def read_body(headers: dict[bytes, bytes], receive: Receive, *, is_strangers: bool) -> bytes:
    """Read a body whole; raises TooLarge."""
    bytes_max = STRANGERS_BODY_BYTES_MAX if is_strangers else BODY_BYTES_MAX
    return b"".join([piece async for piece in _read_pieces(headers, receive, bytes_max)])


async def _read_pieces(
    headers: dict[bytes, bytes], receive: Receive, bytes_max: int
) -> AsyncGenerator[bytes, None]:
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > bytes_max:
        raise TooLarge("body", int(declared), bytes_max)
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("body", "ended before its length")
        piece = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            raise TooLarge("body", size, bytes_max)
        yield piece
        if not message.get("more_body"):
            return


def check_type(headers: dict[bytes, bytes], wanted: bytes) -> None:
    """Refuse a body that says it is of another type."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != wanted:
        raise UnsupportedMediaType(kind.decode("latin-1") or "nothing", wanted.decode())
