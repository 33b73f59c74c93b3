"""The tables of shares: the rule of a queue, with its weights."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.model.limits.shares import ShareRule, StoredShareRule
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SHARES = load_statements("limits/shares")


async def lock_share_rule(tx: Transaction, queue: str) -> StoredShareRule | None:
    """Find the rule of a queue, and let its changes come one after another."""
    row = await tx.fetch_one(_SHARES["lock_share_rule"], queue=queue)
    return None if row is None else _read(row)


async def list_share_rules(
    tx: Transaction, *, queue: str | None = None, rules_max: int
) -> list[StoredShareRule]:
    """List the rules of all queues by name, that of placed work first, or that of one."""
    rows = await tx.fetch(_SHARES["list_share_rules"], queue=queue, rules_max=rules_max)
    return list(map(_read, rows))


async def count_share_rules(tx: Transaction) -> int:
    """Count the queues that have a rule."""
    row = await tx.fetch_one(_SHARES["count_share_rules"])
    assert row is not None, "a count has a row"
    count: int = row[0]
    return count


async def store_share_rule(tx: Transaction, queue: str, rule: ShareRule, *, actor: str) -> None:
    """Store the rule of a queue in the place of the last one, with all of its weights."""
    row = await tx.fetch_one(
        _SHARES["store_share_rule"],
        queue=queue,
        share_by=rule.share_by,
        age_step_seconds=rule.age_step_seconds,
        age_max=rule.age_max,
        actor=actor,
    )
    assert row is not None, "a rule was stored and is gone"
    await tx.fetch(_SHARES["drop_share_weights"], rule_id=row[0])
    if rule.weights:
        await tx.fetch(
            _SHARES["store_share_weights"],
            rule_id=row[0],
            share_values=list(rule.weights),
            weights=list(rule.weights.values()),
        )


async def end_share_rule(tx: Transaction, queue: str, *, actor: str) -> bool:
    """Note that a rule is taken back; False if there is none."""
    return bool(await tx.fetch(_SHARES["end_share_rule"], queue=queue, actor=actor))


async def has_share_rules(tx: Transaction) -> bool:
    """Tell whether anything is shared."""
    return bool(await _count(tx, "has_share_rules"))


async def let_in(tx: Transaction, queues: Sequence[str], *, tasks_max: int, line_max: int) -> None:
    """Let the next tasks of shared queues into line: so many, but no more in all than fit there."""
    await tx.fetch(_SHARES["let_in"], queues=queues, tasks_max=tasks_max, line_max=line_max)


async def sort_into_shares(tx: Transaction, *, batch_max: int) -> int:
    """Move what stood in line before its queue was shared; returns how many went."""
    return await _count(tx, "sort_into_shares", batch_max=batch_max)


async def return_from_shares(tx: Transaction, *, batch_max: int) -> int:
    """Move what stands in shares whose rule was taken back; returns how many went."""
    return await _count(tx, "return_from_shares", batch_max=batch_max)


async def age_shares(tx: Transaction, *, heads_max: int) -> int:
    """Move what has waited a step longer to a line that is more urgent; returns how many went."""
    return await _count(tx, "age_shares", heads_max=heads_max)


async def drop_idle_shares(tx: Transaction, *, idle_for: timedelta, batch_max: int) -> int:
    """Forget shares that have been idle for long; returns how many."""
    return await _count(tx, "drop_idle_shares", idle_for=idle_for, batch_max=batch_max)


async def _count(tx: Transaction, statement: str, **values: Any) -> int:
    row = await tx.fetch_one(_SHARES[statement], **values)
    assert row is not None, "a function has a value"
    count: int = row[0]
    return count


def _read(row: Any) -> StoredShareRule:
    _, queue, share_by, age_step, age_max, is_sorted, is_ending, updated_at, updated_by, text = row
    weights = msgspec.json.decode(text, type=dict[str, float])
    rule = ShareRule(share_by, weights, age_step, age_max)
    return StoredShareRule(queue, rule, is_sorted, is_ending, updated_at, updated_by)
