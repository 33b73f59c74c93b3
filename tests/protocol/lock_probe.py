"""What a transaction of ours waits for, and what it holds meanwhile: seen from outside, row by row.

An action runs on a real database, up to its commit and not further: a trigger stops it there. Each
row that it has locked by then is held by somebody else the next time; whoever waits then is seen,
with all the rows it has locked so far. What is passed by SKIP LOCKED is never waited for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Self

from tests.databases import connect

LIMITS_LOCK = "limits lock"
STOP_KEY = 7_000_001
LOOKS_MAX = 4000
# What an operation notes in a transaction before the one that counts.
NOTED_BEFORE = {"reaper"}
Action = Callable[[], Awaitable[object]]

_STOP = f"""
create table public.stopping ();
create function public.stop_here() returns trigger language plpgsql as $$
begin
    if not exists (select from public.stopping) then
        return null;
    end if;
    perform pg_advisory_xact_lock({STOP_KEY});
    raise exception 'stopped before its commit';
end $$
"""
_TABLES = """
select pg_class.relname, (
        select string_agg(quote_ident(attname), ', '
                          order by array_position(indkey::int[], attnum::int))
          from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int[])
         where indrelid = pg_class.oid and indisprimary)
  from pg_class
 where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') and not relispartition
 order by 1
"""
_WAITING = """
select pid, backend_xid::text, coalesce((
        select bool_or(granted and objid = ({limits} & 4294967295) and objsubid = 1)
          from pg_locks where pg_locks.pid = pg_stat_activity.pid and locktype = 'advisory'), false)
  from pg_stat_activity
 where datname = current_database() and $1 = any (pg_blocking_pids(pid))
"""


class Row(NamedTuple):
    """A row of a table, by where it stands among the table's rows in the order of their keys."""

    table: str
    position: int


class Wait(NamedTuple):
    """A transaction waits for a row, and has locked others before."""

    row: Row
    held: frozenset[Row]


class LockProbe:
    """Somebody who holds rows, and somebody who looks on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._tables: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._holder = await connect(self._url)
        self._watcher = await connect(self._url)
        self._pid = self._holder.get_server_pid()
        self._tables = dict(await self._watcher.fetch(_TABLES))
        await self._watcher.execute(_STOP)
        for table in self._tables.keys() - NOTED_BEFORE:
            await self._watcher.execute(
                f"create constraint trigger zz_stop after insert or update or delete "
                f"on holdfast.{table} deferrable initially deferred "
                "for each row execute function public.stop_here()"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._holder.close()
        await self._watcher.close()

    async def record(self, action: Action) -> list[Wait]:
        """Find everything that an action waits for, in whatever order it was held."""
        await self._watcher.execute("insert into public.stopping default values")
        try:
            return await self._record(action)
        finally:
            await self._watcher.execute("delete from public.stopping")

    async def _record(self, action: Action) -> list[Wait]:
        places = await self._read_places()
        stopped = f"select pg_advisory_xact_lock({STOP_KEY})"
        locked = await self._look(action, stopped, places)
        assert locked is not None, "it writes nothing"
        waits = []
        for table, where, row in sorted(
            [(name, where, row) for (name, where), row in places.items() if row in locked],
            key=lambda found: found[2],
        ):
            if table == LIMITS_LOCK:
                hold = "select pg_advisory_xact_lock(holdfast.limits_lock_key())"
            else:
                hold = f"select 1 from holdfast.{table} where {where} for update"
            held = await self._look(action, hold, places)
            if held is not None:
                waits.append(Wait(row, frozenset(held - {row})))
        return waits

    async def _look(
        self, action: Action, hold: str, places: dict[tuple[str, str], Row]
    ) -> set[Row] | None:
        """Run the action while something is held; returns what it has locked when it waits."""
        async with self._holder.transaction():
            await self._holder.execute(hold)
            running = asyncio.ensure_future(self._run(action))
            held = await self._wait(running, places)
        await running
        return held

    async def _run(self, action: Action) -> None:
        with suppress(Exception):  # it is stopped, one way or the other
            await action()

    async def _wait(
        self, running: "asyncio.Future[None]", places: dict[tuple[str, str], Row]
    ) -> set[Row] | None:
        query = _WAITING.format(limits="holdfast.limits_lock_key()")
        for _ in range(LOOKS_MAX):
            if rows := await self._watcher.fetch(query, self._pid):
                [[_, xid, holds_limits]] = rows
                held = await self._read_locked(xid, places) if xid else set()
                return held | ({Row(LIMITS_LOCK, 1)} if holds_limits else set())
            if running.done():
                return None
            await asyncio.sleep(0.002)
        raise AssertionError("it neither waits nor ends")

    async def _read_places(self) -> dict[tuple[str, str], Row]:
        parts = [
            f"select '{table}', format('tableoid = %s and ctid = %L', tableoid, ctid), "
            f"row_number() over (order by {key or 'ctid'}) from holdfast.{table}"
            for table, key in self._tables.items()
        ]
        found = await self._watcher.fetch(" union all ".join(parts))
        places = {(table, where): Row(table, position) for table, where, position in found}
        return places | {(LIMITS_LOCK, ""): Row(LIMITS_LOCK, 1)}

    async def _read_locked(self, xid: str, places: dict[tuple[str, str], Row]) -> set[Row]:
        parts = [
            f"select '{table}', format('tableoid = %s and ctid = %L', tableoid, ctid) "
            f"from holdfast.{table} where xmax::text = $1"
            for table in self._tables
        ]
        found = await self._watcher.fetch(" union all ".join(parts), xid)
        return {places[table, where] for table, where in found if (table, where) in places}
