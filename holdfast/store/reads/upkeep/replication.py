"""How far a Postgres and its standby are."""

from datetime import datetime
from typing import NamedTuple

from holdfast.store.database import Database
from holdfast.store.statements import load_statements

_SQL = load_statements("reads/upkeep/replication")


class Position(NamedTuple):
    """Which Postgres it is, and how much of the common log it has."""

    system_identifier: int
    is_standby: bool
    started_at: datetime
    position: int

    def follows(self, primary: "Position") -> bool:
        """Tell whether this is a copy of a primary that goes along with it, or is the same."""
        is_same = self.started_at == primary.started_at
        return self.system_identifier == primary.system_identifier and (self.is_standby or is_same)


async def read_position(database: Database) -> Position:
    """Read how far a Postgres is."""
    [row] = await database.fetch(_SQL["read_position"])
    return Position(*row)
