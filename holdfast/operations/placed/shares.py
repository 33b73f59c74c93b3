"""Whose turn it is among placed work, as far as it is shared: read for a plan, kept with it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.rules.placement.snapshot import Demand
from holdfast.rules.placement.turns import Turn, Turns, begin_turns
from holdfast.store.database import Transaction
from holdfast.store.tables.placed.shares import (
    PlacedRule,
    advance_passes,
    find_placed_rule,
    keep_passes,
    list_passes,
    list_shares_of_jobs,
)

SHARES_MAX = 20_000


class SharedWork(NamedTuple):
    """The rule of placed work, and whose turn it is by it."""

    rule: PlacedRule
    turns: Turns


async def read_shares(
    tx: Transaction, demands: Sequence[Demand], now: float
) -> tuple[list[Demand], SharedWork | None]:
    """Say of each demand whose it is, and age it; and whose turn it is, if work is shared."""
    rule = await find_placed_rule(tx)
    if rule is None:
        return list(demands), None
    job_ids = sorted({demand.job_id for demand in demands})
    shares = {each.job_id: each for each in await list_shares_of_jobs(tx, rule.rule_id, job_ids)}
    shared = [
        demand._replace(
            priority=demand.priority + _gained(demand, rule, now),
            share=shares[demand.job_id].value,
            slots=shares[demand.job_id].slots,
        )
        for demand in demands
        if demand.job_id in shares
    ]
    known = await list_passes(tx, rule.rule_id, shares_max=SHARES_MAX)
    passes = begin_turns(known, {(demand.priority, demand.share) for demand in shared})
    weights = {each.value: each.weight for each in shares.values()}
    return shared, SharedWork(rule, Turns(passes, weights))


async def keep_turns(tx: Transaction, shared: SharedWork | None) -> None:
    """Keep where shares begin, so that who waits in vain does not lose his place."""
    if shared is not None:
        await keep_passes(tx, shared.rule.rule_id, shared.turns.passes)


async def note_placed(
    tx: Transaction,
    shared: SharedWork | None,
    demands: Sequence[Demand],
    *,
    placed: Sequence[tuple[int, str | None]],
) -> None:
    """Move shares on by the tasks that were placed, each named by its job and what it avoids.

    The demands of one job may have gained different priorities.
    """
    if shared is None or not placed:
        return
    known = {(demand.job_id, demand.avoid): demand for demand in demands}
    steps: dict[Turn, float] = defaultdict(float)
    for key in placed:
        demand = known[key]
        steps[demand.priority, demand.share] += shared.turns.cost(demand)
    await advance_passes(tx, shared.rule.rule_id, dict(sorted(steps.items())))


def _gained(demand: Demand, rule: PlacedRule, now: float) -> int:
    """Count the steps of priority that a demand has gained by waiting."""
    if rule.age_step_seconds is None:
        return 0
    return max(0, min(rule.age_max, int((now - demand.since) // rule.age_step_seconds)))
