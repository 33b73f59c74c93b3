"""Keep the lines of shares in order: sort tasks into them, return them, age them, forget idle ones.

What becomes ready in a shared queue is put there by whoever makes it ready, and is let into its
queue's line by claims (`holdfast/store/schema/functions/shares.sql`); this is the rest.
"""

from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.store.tables.limits.shares import (
    age_shares,
    drop_idle_shares,
    has_share_rules,
    return_from_shares,
    sort_into_shares,
)

SORTED_MAX = 2000
# Of each line so many grow older at a time: who comes behind them waits for them anyway.
HEADS_MAX = 100
# A share that is forgotten begins anew where the others are.
IDLE_FOR = timedelta(days=1)
FORGOTTEN_MAX = 1000


async def sort_shares(ledger: Ledger) -> int:
    """Move some tasks into shares of a new rule, or out of those of one that was taken back."""
    async with ledger.database.transaction() as tx:
        if not await has_share_rules(tx):
            return 0
        moved = await sort_into_shares(tx, batch_max=SORTED_MAX)
    async with ledger.database.transaction() as tx:
        return max(moved, await return_from_shares(tx, batch_max=SORTED_MAX))


async def age(ledger: Ledger) -> int:
    """Let tasks in shares gain a step of priority, and forget shares that nobody uses."""
    async with ledger.database.transaction() as tx:
        if not await has_share_rules(tx):
            return 0
        aged = await age_shares(tx, heads_max=HEADS_MAX)
    async with ledger.database.transaction() as tx:
        await drop_idle_shares(tx, idle_for=IDLE_FOR, batch_max=FORGOTTEN_MAX)
    return aged
