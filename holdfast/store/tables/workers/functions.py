"""The table of functions that workers have announced."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.model.shapes import read_tolerantly
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions, FunctionParameter
from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_FUNCTIONS = load_statements("workers/functions")


class StoredFunction(NamedTuple):
    """A function, who announced it last, since when it is so, and when that was heard."""

    path: str
    options: str
    parameters: str
    doc: str | None
    announced_by: str
    changed_at: datetime
    last_seen_at: datetime

    def read(self) -> AnnouncedFunction:
        """Give what was announced."""
        return AnnouncedFunction(
            path=self.path,
            options=read_tolerantly(self.options, FunctionOptions),
            parameters=msgspec.json.decode(self.parameters, type=list[FunctionParameter]),
            doc=self.doc,
        )


async def announce_functions(
    tx: Transaction,
    functions: Sequence[AnnouncedFunction],
    *,
    announced_by: str,
    queues: Iterable[str] = (),
) -> list[str]:
    """Store what is new about functions; returns those whose options have changed.

    With `queues`, what is announced for none of them stays as it is.
    """
    text = msgspec.json.encode(functions).decode()
    await tx.fetch(_FUNCTIONS["lock_functions"], paths=[function.path for function in functions])
    rows = await tx.fetch(
        _FUNCTIONS["announce_functions"],
        functions=text,
        announced_by=announced_by,
        queues=sorted(queues),
    )
    return [row[0] for row in rows]


async def list_functions_beyond(
    tx: Transaction, paths: Iterable[str], *, queues: Iterable[str]
) -> dict[str, str | None]:
    """List those of these functions that are announced for none of these queues, with theirs."""
    rows = await tx.fetch(
        _FUNCTIONS["list_functions_beyond"], paths=sorted(paths), queues=sorted(queues)
    )
    return {row[0]: row[1] for row in rows}


async def advance_functions(tx: Transaction) -> None:
    """Have every submission from here on notice that options have changed."""
    await tx.fetch(_FUNCTIONS["advance_functions"])


async def drop_old_functions(tx: Transaction, *, functions_max: int) -> int:
    """Keep a number of functions, those that were announced last."""
    return len(await tx.fetch(_FUNCTIONS["drop_old_functions"], functions_max=functions_max))


async def read_function_options(database: Database) -> Mapping[str, FunctionOptions]:
    """Read the options of all functions."""
    rows = await database.fetch(_FUNCTIONS["read_function_options"])
    return {path: read_tolerantly(text, FunctionOptions) for path, text in rows}


async def list_functions(tx: Transaction, *, after: str, batch_max: int) -> list[StoredFunction]:
    """List functions by their paths."""
    rows = await tx.fetch(_FUNCTIONS["list_functions"], after=after, batch_max=batch_max)
    return [StoredFunction(*row) for row in rows]


async def find_function(tx: Transaction, path: str) -> StoredFunction | None:
    """Find a function."""
    row = await tx.fetch_one(_FUNCTIONS["find_function"], path=path)
    return None if row is None else StoredFunction(*row)
