"""Shares as people see them: who waits for how much of a queue, and whose turn it is."""

from collections import defaultdict
from datetime import datetime
from typing import NamedTuple

from holdfast.model.limits.shares import StoredShareRule
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.limits.shares import list_share_rules

_SHARES = load_statements("reads/limits/shares")
RULES_MAX = 1000
SHARES_MAX = 100
WAITING_COUNTED_MAX = 1000
PLACED_COUNTED_MAX = 10_000
LEASES_COUNTED_MAX = 100_000


class ShareRow(NamedTuple):
    """One share: what it weighs, runs and waits for; its pass is None while nothing is in line."""

    value: str
    weight: float
    running: int
    waiting: int
    pass_value: float | None


class SharedQueue(NamedTuple):
    """A rule, and the first of its shares, in turn."""

    rule: StoredShareRule
    shares: list[ShareRow]


class ShareTurn(NamedTuple):
    """What a task waits for in a queue that is shared: the turn of its share."""

    share_by: str
    value: str
    before: int


async def find_turn(tx: Transaction, task_id: TaskId, *, count_max: int) -> ShareTurn | None:
    """Find how many tasks come before one that stands in a share, up to a bound."""
    row = await tx.fetch_one(_SHARES["read_turn"], **task_id._asdict(), count_max=count_max)
    return None if row is None else ShareTurn._make(row)


class SharedLine(NamedTuple):
    """Tasks of a queue that stand in shares, and since when the first of them does."""

    queue: str
    oldest_at: datetime
    count: int  # type: ignore[assignment]  # hides a method of tuples that nobody needs here


async def count_in_shares(tx: Transaction, *, count_max: int) -> list[SharedLine]:
    """Count what stands in shares, of each queue up to a bound."""
    return list(
        map(SharedLine._make, await tx.fetch(_SHARES["count_in_shares"], count_max=count_max))
    )


async def list_shared_queues(tx: Transaction, queue: str | None = None) -> list[SharedQueue]:
    """List all queues with a rule, that of placed work first, or one; with their shares."""
    rules = await list_share_rules(tx, queue=queue, rules_max=RULES_MAX)
    if not rules:
        return []
    rows = await tx.fetch(
        _SHARES["list_shares"],
        queue=queue,
        rules_max=RULES_MAX,
        shares_max=SHARES_MAX,
        count_max=WAITING_COUNTED_MAX,
        placed_max=PLACED_COUNTED_MAX,
        leases_max=LEASES_COUNTED_MAX,
    )
    found: dict[str, list[ShareRow]] = defaultdict(list)
    for name, *share in rows:
        found[name].append(ShareRow(*share))
    return [SharedQueue(rule, found[rule.queue]) for rule in rules]
