"""Pages of a list, over lists that need no database."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.pages import STRETCH_MIN, Page, fill_page


class Numbers:
    """The numbers from 1 to `count`, of which some are wanted."""

    def __init__(self, count: int, wanted: Sequence[int]) -> None:
        self.count = count
        self.wanted = frozenset(wanted)
        self.examined: list[int] = []

    async def walk(self, after: int, count_max: int) -> list[int]:
        keys = list(range(after + 1, min(after + count_max, self.count) + 1))
        self.examined += keys
        return keys

    async def read(self, keys: list[int], count_max: int) -> list[str]:
        return [str(key) for key in keys if key in self.wanted][:count_max]

    async def page(self, after: int, page_size: int, examined_max: int) -> Page[str, int]:
        return await fill_page(
            self.walk,
            self.read,
            int,
            after=after,
            page_size=page_size,
            examined_max=examined_max,
        )


async def test_a_list_without_a_filter_is_read_no_further_than_its_page() -> None:
    numbers = Numbers(100, range(1, 101))
    page = await numbers.page(0, 10, 10_000)
    assert page == Page([str(n) for n in range(1, 11)], 10)
    assert len(numbers.examined) == 11


async def test_a_full_page_at_the_end_of_the_list_is_the_last_one() -> None:
    assert await Numbers(10, range(1, 11)).page(0, 10, 10_000) == Page(
        [str(n) for n in range(1, 11)], None
    )


async def test_an_empty_list_is_one_empty_page() -> None:
    assert await Numbers(0, ()).page(0, 10, 10_000) == Page([], None)


async def test_a_page_that_finds_nothing_says_where_it_stopped() -> None:
    numbers = Numbers(50_000, (40_000,))
    page = await numbers.page(0, 10, 10_000)
    assert page == Page([], 10_000)
    assert numbers.examined == list(range(1, 10_001))


async def test_a_bound_below_the_page_size_is_kept() -> None:
    numbers = Numbers(STRETCH_MIN * 5, range(1, STRETCH_MIN * 5))
    page = await numbers.page(0, 100, 30)
    assert page == Page([str(n) for n in range(1, 31)], 30)
    assert len(numbers.examined) == 30


@given(
    count=st.integers(0, 60),
    wanted=st.sets(st.integers(1, 60)),
    page_size=st.integers(1, 20),
    examined_max=st.integers(1, 40),
)
async def test_the_pages_of_a_list_are_the_list(
    count: int, wanted: set[int], page_size: int, examined_max: int
) -> None:
    numbers = Numbers(count, sorted(wanted))
    found: list[str] = []
    after = 0
    for _ in range(count + 2):
        page = await numbers.page(after, page_size, examined_max)
        assert len(page.rows) <= page_size
        found += page.rows
        if page.next_after is None:
            break
        assert page.next_after > after
        after = page.next_after
    assert found == [str(n) for n in sorted(wanted) if n <= count]
