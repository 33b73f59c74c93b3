"""Lists that come in pages, from a reader that follows a script."""

from typing import Any

import msgspec

from holdfast.client.pages import read_pages, read_some
from holdfast.wire.requests import PageQuery
from holdfast.wire.status import WorkerList


class Script:
    """Gives pages of numbers, each shorter than it was asked for."""

    def __init__(self, *pages: list[int]) -> None:
        self._pages = pages
        self.asked: list[tuple[int, str | None]] = []

    async def __call__(self, path: str, returns: type[Any], *, query: Any = None) -> Any:
        """Give the page that the token names."""
        self.asked.append((query.page_size, query.page_token))
        number = int(query.page_token or 0)
        is_last = number == len(self._pages) - 1
        return returns(self._pages[number], None if is_last else str(number + 1))


class Numbers(msgspec.Struct):
    """A page."""

    numbers: list[int]
    next_page_token: str | None = None


async def test_a_list_is_read_to_its_end() -> None:
    read = Script([1, 2], [], [3])
    pages = read_pages(read, "/x", Numbers, query=PageQuery(2))
    assert [number async for page in pages for number in page.numbers] == [1, 2, 3]
    assert read.asked == [(2, None), (2, "1"), (2, "2")]


async def test_so_many_are_read_as_one_page_with_the_token_of_the_rest() -> None:
    read = Script([1, 2], [], [3], [4])
    some = await read_some(read, "/x", Numbers, query=PageQuery(), count_max=3)
    assert (some.numbers, some.next_page_token) == ([1, 2, 3], "3")
    assert read.asked == [(3, None), (1, "1"), (1, "2")]
    whole = await read_some(Script([1]), "/x", Numbers, query=PageQuery(), count_max=3)
    assert (whole.numbers, whole.next_page_token) == ([1], None)
    assert await read_some(Script([]), "/x", WorkerList, query=PageQuery(), count_max=1) == (
        WorkerList([])
    )
