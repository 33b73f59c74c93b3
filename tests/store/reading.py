"""How many rows of each table a block of statements reads, by what the database counts itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.store.database import Database

# Of partitions, all together.
_READ = """
select split_part(relname, '_', 1), sum(seq_scan)::int,
       sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int
  from pg_stat_all_tables
 where schemaname = 'holdfast' and relname ~ '^[a-z]+(_[0-9]+)?$' group by 1
"""


class Reads:
    """The rows that were read of each table, and the tables that were read from end to end."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.scanned: set[str] = set()


@asynccontextmanager
async def reads(database: Database) -> AsyncIterator[Reads]:
    """Count what a block reads by the one connection that a database has."""
    before = await _read(database)
    found = Reads()
    yield found
    for table, (scans, rows) in (await _read(database)).items():
        scans_before, rows_before = before.get(table, (0, 0))
        if rows > rows_before:
            found.rows[table] = rows - rows_before
        if scans > scans_before:
            found.scanned.add(table)


async def _read(database: Database) -> dict[str, tuple[int, int]]:
    async with database.connection() as connection:
        await connection.fetchval("select pg_stat_force_next_flush()")
        rows = await connection.fetch(_READ)
    return {table: (scans, count) for table, scans, count in rows}
