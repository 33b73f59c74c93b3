"""What a checkup reads of a Postgres and of the ledger in it; each read needs few rights."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.rules.checkup.ledger import Backlog, ScheduleProblem, Standby, TableRows
from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_CHECKUP = load_statements("reads/upkeep/checkup")
_CLOCK = load_statements("clock")
PROBLEMS_MAX = 20
PROBLEM_LENGTH_MAX = 300


class ServerClock(NamedTuple):
    """The time of a Postgres, and whether it is a standby."""

    now: datetime
    is_standby: bool


async def read_settings(database: Database, names: Sequence[str]) -> dict[str, str]:
    """Read settings of the server; those that the role may not see are left out."""
    rows = await database.fetch(_CHECKUP["read_settings"], names=list(names))
    return {row[0]: row[1] for row in rows}


async def read_server_clock(database: Database) -> ServerClock:
    """Read the clock of the server, whatever its database holds."""
    return ServerClock._make((await database.fetch(_CHECKUP["read_clocks"]))[0])


async def read_ledger_clock(database: Database) -> datetime:
    """Read the clock that leases go by."""
    now: datetime = (await database.fetch(_CLOCK["read_clock"]))[0][0]
    return now


async def count_connections(database: Database) -> int:
    """Count the connections to the server."""
    count: int = (await database.fetch(_CHECKUP["count_connections"]))[0][0]
    return count


async def read_transaction_id_age(database: Database) -> int:
    """Read how many transactions ago the oldest row that was never frozen was written."""
    age: int = (await database.fetch(_CHECKUP["read_transaction_id_age"]))[0][0]
    return age


async def read_role(database: Database) -> str:
    """Read the name of the role that is connected."""
    name: str = (await database.fetch(_CHECKUP["read_role"]))[0][0]
    return name


async def list_missing_rights(database: Database) -> list[str]:
    """List what a server's role should be allowed and this one is not."""
    return [row[0] for row in await database.fetch(_CHECKUP["list_missing_rights"])]


async def list_table_rows(database: Database) -> list[TableRows]:
    """Count live and dead rows of every table, as vacuum has them."""
    return [TableRows._make(row) for row in await database.fetch(_CHECKUP["list_table_rows"])]


async def list_unvacuumed(database: Database) -> list[str]:
    """List tables for which autovacuum was switched off."""
    return [row[0] for row in await database.fetch(_CHECKUP["list_unvacuumed"])]


async def read_ranges(database: Database) -> tuple[int, int]:
    """Read the last id of a job, and where the last range of ids ends."""
    last_job_id, end_job_id = (await database.fetch(_CHECKUP["read_ranges"]))[0]
    return last_job_id, end_job_id


async def read_backlog(database: Database) -> Backlog:
    """Read for how long the oldest of what chores do has been due; below 0 it is not yet."""
    return Backlog._make((await database.fetch(_CHECKUP["read_backlog"]))[0])


async def list_schedule_problems(database: Database) -> list[ScheduleProblem]:
    """List schedules that could not fire, those that are tried again first."""
    rows = await database.fetch(
        _CHECKUP["list_schedule_problems"], count_max=PROBLEMS_MAX, length_max=PROBLEM_LENGTH_MAX
    )
    return [ScheduleProblem._make(row) for row in rows]


async def list_standbys(database: Database) -> list[Standby]:
    """List the standbys of a primary."""
    return [Standby._make(row) for row in await database.fetch(_CHECKUP["list_standbys"])]


async def read_wal_position(database: Database) -> str:
    """Read up to where a primary has written."""
    position: str = (await database.fetch(_CHECKUP["read_wal_position"]))[0][0]
    return position


class Replay(NamedTuple):
    """How far a standby is behind a position, and whether its replay is paused."""

    bytes_behind: int
    seconds: float | None
    is_paused: bool


async def read_replay(database: Database, position: str) -> Replay:
    """Read how far a standby has replayed."""
    return Replay._make((await database.fetch(_CHECKUP["read_replay"], position=position))[0])


async def read_leader(tx: Transaction) -> dict[str, bool]:
    """Read which server has the term of the leader, and whether it lasts."""
    rows = await tx.fetch(_CHECKUP["read_leader"])
    return {row[0]: row[1] for row in rows if row[0] is not None}
