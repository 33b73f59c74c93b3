"""Change a schema beside a ledger at work: one migrator at a time, and nobody held up for long.

Whoever waits for a table lock holds up everybody who comes for that table after him. So a brief
step waits a moment for each of its locks, keeps all of them for a moment, and otherwise lets go and
tries again. Migrators themselves never wait inside Postgres: the snapshot of a waiting statement
would hold up an index that is built concurrently by the very migrator it waits for.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from holdfast.errors import Unavailable

Answer = TypeVar("Answer")

# Any numbers will do, as long as nobody else takes advisory locks under them. Programs that know
# migration 23 and none after it wait for the second one inside Postgres, so it is never kept long.
_TURN = 0x686F6C65
_TURN_BEFORE_24 = 0x686F6C64
TURN_SECONDS_MAX = 600.0
TURN_PAUSE_SECONDS = (0.05, 0.2)

# Together less than the 250 ms for which nobody may be held up.
LOCK_WAIT_MS = 50
HOLD_SECONDS_MAX = 0.2
FROZEN_MS_MAX = 2_000
TRIES_MAX = 200
PAUSE_SECONDS = (0.1, 0.4)

# Vacuum in the background gives way to whoever has waited for deadlock_timeout, 1 s, and so never
# to a brief step. This lock is in nobody's way but vacuum's and that of other schema changes.
_YIELD_WAIT_MS = 3_000
_VACUUMED = """
select distinct relation::regclass::text from pg_locks
  join pg_stat_activity using (pid) join pg_class on pg_class.oid = relation
 where backend_type = 'autovacuum worker' and granted and mode = 'ShareUpdateExclusiveLock'
   and relkind = 'r' and relnamespace = 'holdfast'::regnamespace
 order by 1"""

_OLDEST = """
select format('process %s (%s, %s, since %s)', pid,
              coalesce(nullif(application_name, ''), backend_type, '?'), coalesce(state, 'at work'),
              date_trunc('second', xact_start))
  from pg_stat_activity
 where pid <> pg_backend_pid() and xact_start is not null
   and exists (select from pg_locks join pg_class on pg_class.oid = relation
                where pg_locks.pid = pg_stat_activity.pid and granted
                  and database = (select oid from pg_database where datname = current_database())
                  and relnamespace = 'holdfast'::regnamespace)
 order by xact_start limit 1"""


async def in_turn(
    connection: Any, step: Callable[[], Awaitable[Answer]], *, beside_older: bool = False
) -> Answer:
    """Run a step in a transaction that no other migrator can be in; raises Unavailable.

    The lock ends with the transaction: one of the session would stay with a pooler's connection.
    `beside_older` is for what takes long: migrators before 24 are not kept away.
    """
    clock = asyncio.get_running_loop().time
    ends_at = clock() + TURN_SECONDS_MAX
    turns = [_TURN] if beside_older else [_TURN, _TURN_BEFORE_24]
    while True:
        async with connection.transaction(isolation="read_committed"):
            query = (
                "select bool_and(pg_try_advisory_xact_lock(turn)) from unnest($1::bigint[]) turn"
            )
            if await connection.fetchval(query, turns):
                return await step()
        if clock() >= ends_at:
            raise Unavailable(
                f"another `holdfast db migrate` has been at work for {TURN_SECONDS_MAX:.0f} s; "
                "wait for its end, or end it, and run this again"
            )
        await asyncio.sleep(random.uniform(*TURN_PAUSE_SECONDS))


async def briefly(
    connection: Any, step: Callable[[], Awaitable[Answer]], *, hold_seconds_max: float
) -> Answer:
    """Run a step that holds others up for a moment at most, again if need be.

    Raises Unavailable, with nothing changed, if it never gets through.
    """
    is_slow = False

    async def run() -> Answer:
        await _wait_for_vacuum(connection)
        await connection.execute(
            f"set local lock_timeout = {LOCK_WAIT_MS}; "
            f"set local idle_in_transaction_session_timeout = {FROZEN_MS_MAX}"
        )
        async with asyncio.timeout(hold_seconds_max):
            return await step()

    for _ in range(TRIES_MAX):
        try:
            return await in_turn(connection, run)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            is_slow = False
        except TimeoutError:
            is_slow = True
        await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
    if is_slow:
        raise Unavailable(
            f"a migration does not get done within {hold_seconds_max} s, for which others may have "
            "to wait, and changed nothing; at a quiet time, run `holdfast db migrate` with a "
            "larger --hold-seconds"
        )
    oldest = await connection.fetchval(_OLDEST) or "nobody now"
    raise Unavailable(
        f"a migration did not get its locks in {TRIES_MAX} tries, and changed nothing; the oldest "
        f"transaction that holds a table is that of {oldest}: end it, or wait for its end, and "
        "run `holdfast db migrate` again"
    )


async def rest(connection: Any) -> None:
    """Leave a transaction open and idle, for however long, without a snapshot.

    A simple query, without parameters, also closes the portal of the last one that had some; with
    its snapshot, an index that is built concurrently would wait for it.
    """
    await connection.execute("set local idle_in_transaction_session_timeout = 0")


async def _wait_for_vacuum(connection: Any) -> None:
    """Have vacuum in the background leave our tables, and stay away until the transaction ends."""
    for (table,) in await connection.fetch(_VACUUMED):
        await connection.execute(
            f"set local lock_timeout = {_YIELD_WAIT_MS}; "
            f"lock table {table} in share update exclusive mode"
        )
