"""The shares of placed work through their functions."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.shares import PLACED, ShareRule
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.rules.placement.turns import KnownPass
from holdfast.store.tables.placed.shares import (
    advance_passes,
    find_placed_rule,
    keep_passes,
    list_passes,
    list_shares_of_jobs,
)
from tests.placed_world import PlacedWorld


async def test_passes_are_kept_and_moved_on(ledger: Ledger, cluster: PlacedWorld) -> None:
    async with ledger.database.transaction() as tx:
        assert await find_placed_rule(tx) is None
    rule = ShareRule("owner", {"ann": 2.0}, age_step_seconds=5.0, age_max=3)
    await set_share_rule(ledger, PLACED, rule, actor="eve")
    job_id = await cluster.submit(owner="ann")
    async with ledger.database.transaction() as tx:
        stored = await find_placed_rule(tx)
        assert stored is not None
        assert (stored.age_step_seconds, stored.age_max) == (5.0, 3)
        [share] = await list_shares_of_jobs(tx, stored.rule_id, [job_id])
        assert share == (job_id, "ann", 1, 2.0)
        await keep_passes(tx, stored.rule_id, {(0, "ann"): 1.0, (3, "bob"): 2.0})
        await advance_passes(tx, stored.rule_id, {(3, "bob"): 0.5})
        await keep_passes(tx, stored.rule_id, {(3, "bob"): 2.5})
        assert await list_passes(tx, stored.rule_id, shares_max=9) == [
            KnownPass((3, "bob"), 2.5, False),
            KnownPass((0, "ann"), 1.0, True),
        ]
