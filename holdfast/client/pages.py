"""Lists of a server, which come in pages: read page by page, or together up to a number."""

from collections.abc import AsyncGenerator
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

Answer = TypeVar("Answer")
COUNT_MAX = 1000
PAGE_SIZE_MAX = 1000
_TOKEN = "next_page_token"


class HasToken(Protocol):
    """A page of a list; without a token it is the last one."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def next_page_token(self) -> str | None:
        """What the next page is asked for by."""


Page = TypeVar("Page", bound=HasToken)


class Reads(Protocol):
    """A way to read a route, which tries again while the server is away."""

    async def __call__(self, path: str, returns: type[Answer], *, query: Any = None) -> Answer:
        """Read it."""


async def read_pages(
    read: Reads, path: str, shape: type[Page], *, query: Any
) -> AsyncGenerator[Page, None]:
    """Read a list to its end, page by page."""
    while True:
        page = await read(path, shape, query=query)
        yield page
        if page.next_page_token is None:
            return
        query = msgspec.structs.replace(query, page_token=page.next_page_token)


async def read_some(
    read: Reads, path: str, shape: type[Page], *, query: Any, count_max: int
) -> Page:
    """Read as many rows of a list as are wanted, as one page; a short page may not be the last."""
    [field] = {*shape.__struct_fields__} - {_TOKEN}
    rows: list[Any] = []
    token: str | None = None
    while len(rows) < count_max:
        page_size = min(count_max - len(rows), PAGE_SIZE_MAX)
        asked = msgspec.structs.replace(query, page_size=page_size, page_token=token)
        page = await read(path, shape, query=asked)
        rows += getattr(page, field)
        token = page.next_page_token
        if token is None:
            break
    return shape(**{field: rows, _TOKEN: token})
