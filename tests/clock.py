"""Time travel: the one function that tells Holdfast the time, replaced by one a test can move."""

from datetime import timedelta
from typing import Any, Self

from tests.databases import connect


class Clock:
    """The clock of one test database; it stands still, and moves when told to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    async def __aenter__(self) -> Self:
        self._connection = await connect(self._url)
        await self._connection.execute(
            """create table if not exists public.test_clock (shift interval not null);
               insert into public.test_clock values ('0');
               create or replace function holdfast.now() returns timestamptz language sql volatile
                   as 'select clock_timestamp() + (select shift from public.test_clock)'"""
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def advance(self, seconds: float) -> None:
        """Let time pass at once."""
        await self._connection.execute(
            "update public.test_clock set shift = shift + $1", timedelta(seconds=seconds)
        )

    async def fetch(self, query: str, *arguments: Any) -> list[Any]:
        """Read the tables as they are, past all code of ours."""
        rows: list[Any] = await self._connection.fetch(query, *arguments)
        return rows
