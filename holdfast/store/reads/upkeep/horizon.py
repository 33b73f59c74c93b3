"""Who keeps vacuum from removing dead rows: sessions, replication slots, prepared transactions."""

from holdfast.rules.reading.horizon import Holder
from holdfast.store.database import Database
from holdfast.store.statements import load_statements

_HORIZON = load_statements("reads/upkeep/horizon")
HOLDERS_MAX = 100


async def list_holders(database: Database) -> list[Holder]:
    """List who holds the horizon back, the oldest first; needs no rights but to connect."""
    rows = await database.fetch(_HORIZON["list_horizon_holders"], holders_max=HOLDERS_MAX)
    return [Holder(*row) for row in rows]
