"""Lists, a page at a time: ids are walked in the order of an index, then the wanted rows are read.

Few rows may be wanted among many, so a page ends when it is full or when enough has been looked at;
it then says where to go on, even if nothing was found. What a page may cost is bounded either way.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.store.database import Transaction
from holdfast.store.statements import Statement

EXAMINED_MAX = 10_000
STRETCH_MIN = 1000
Row = TypeVar("Row")
Key = TypeVar("Key")
Walk = Callable[[int, int], Awaitable[list[int]]]


@dataclass(frozen=True, slots=True)
class Page(Generic[Row, Key]):
    """Some rows, and the key after which the next ones stand; None at the end of the list."""

    rows: list[Row]
    next_after: Key | None


def walker(tx: Transaction, statement: Statement, after_field: str, **values: Any) -> Walk:
    """Make a walk along numbers of a statement that lists them after one."""

    async def walk(after: int, count_max: int) -> list[int]:
        rows = await tx.fetch(statement, **values, **{after_field: after}, count_max=count_max)
        return [row[0] for row in rows]

    return walk


async def fill_page(
    walk: Callable[[Key, int], Awaitable[list[Key]]],
    read: Callable[[list[Key], int], Awaitable[list[Row]]],
    key_of: Callable[[Row], Key],
    *,
    after: Key,
    page_size: int,
    examined_max: int = EXAMINED_MAX,
) -> Page[Row, Key]:
    """Walk on from a key, in longer and longer stretches, until a page is full.

    `walk` lists the next keys after one; `read` gives the wanted rows among keys, a few at most.
    """
    rows: list[Row] = []
    examined = 0
    stretch = min(page_size + 1, examined_max)
    while examined < examined_max:
        keys = await walk(after, stretch)
        rows += await read(keys, page_size - len(rows)) if keys else []
        is_end = len(keys) < stretch
        if len(rows) == page_size:
            last = key_of(rows[-1])
            return Page(rows, None if is_end and last == keys[-1] else last)
        if is_end:
            return Page(rows, None)
        after = keys[-1]
        examined += len(keys)
        stretch = min(max(stretch * 4, STRETCH_MIN), examined_max - examined)
    return Page(rows, after)
