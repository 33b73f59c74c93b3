"""The one row of the reaper: when it last passed, and the last outage."""

from datetime import datetime
from typing import Any, NamedTuple

from holdfast.rules.outage import Watch
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LEASES = load_statements("work/leases")


class ReaperRow(NamedTuple):
    """What was noted at the last pass, and the time now."""

    watch: Watch
    now: datetime


async def lock_reaper(tx: Transaction) -> ReaperRow | None:
    """Lock the row; None while another server has it."""
    row = await tx.fetch_one(_LEASES["lock_reaper"])
    return None if row is None else _read(row)


async def read_reaper(tx: Transaction) -> ReaperRow:
    """Read the row without waiting for anybody."""
    row = await tx.fetch_one(_LEASES["read_reaper"])
    assert row is not None, "there is always one row of the reaper's"
    return _read(row)


async def record_reaper_pass(tx: Transaction, watch: Watch) -> None:
    """Note a pass."""
    await tx.fetch(
        _LEASES["record_reaper_pass"],
        last_pass_at=watch.last_pass_at,
        outage_from=watch.outage_from,
        outage_until=watch.outage_until,
    )


def _read(row: Any) -> ReaperRow:
    last_pass_at, outage_from, outage_until, now = row
    return ReaperRow(Watch(last_pass_at, outage_from, outage_until), now)
