"""The shares of placed work: its rule, and how far each share has come."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.rules.placement.turns import KnownPass, Turn
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SHARES = load_statements("limits/shares")


class PlacedRule(NamedTuple):
    """The rule by which placed work is shared; no step, and nothing ages."""

    rule_id: int
    age_step_seconds: float | None
    age_max: int


class ShareOfJob(NamedTuple):
    """Whose share a job is part of, what a task takes of it, and what the share weighs."""

    job_id: int
    value: str
    slots: int
    weight: float


async def find_placed_rule(tx: Transaction) -> PlacedRule | None:
    """Find the rule of placed work."""
    row = await tx.fetch_one(_SHARES["find_placed_rule"])
    return None if row is None else PlacedRule._make(row)


async def list_shares_of_jobs(
    tx: Transaction, rule_id: int, job_ids: Sequence[int]
) -> list[ShareOfJob]:
    """List whose share each of these jobs is part of."""
    rows = await tx.fetch(_SHARES["list_shares_of_jobs"], rule_id=rule_id, job_ids=job_ids)
    return list(map(ShareOfJob._make, rows))


async def list_passes(tx: Transaction, rule_id: int, *, shares_max: int) -> list[KnownPass]:
    """List how far shares have come."""
    rows = await tx.fetch(_SHARES["list_passes"], rule_id=rule_id, shares_max=shares_max)
    return [KnownPass((priority, value), at, is_idle) for priority, value, at, is_idle in rows]


async def keep_passes(tx: Transaction, rule_id: int, passes: Mapping[Turn, float]) -> None:
    """Keep where shares with something in line have begun; all others are idle."""
    columns = _columns(passes)
    await tx.fetch(_SHARES["keep_passes"], rule_id=rule_id, passes=list(passes.values()), **columns)


async def advance_passes(tx: Transaction, rule_id: int, steps: Mapping[Turn, float]) -> None:
    """Move shares on by what was placed of them."""
    columns = _columns(steps)
    await tx.fetch(
        _SHARES["advance_passes"], rule_id=rule_id, steps=list(steps.values()), **columns
    )


def _columns(turns: Mapping[Turn, float]) -> dict[str, list[Any]]:
    return {
        "urgencies": [-priority for priority, _ in turns],
        "share_values": [value for _, value in turns],
    }
