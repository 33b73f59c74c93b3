"""The tables of rules of shares through their functions."""

from holdfast.model.limits.shares import ShareRule
from holdfast.store.database import Transaction
from holdfast.store.tables.limits.shares import (
    count_share_rules,
    end_share_rule,
    list_share_rules,
    lock_share_rule,
    store_share_rule,
)


async def test_a_rule_is_stored_with_all_of_its_weights(tx: Transaction) -> None:
    first = ShareRule("owner", {"ann": 3.0, "bob": 0.5})
    await store_share_rule(tx, "q", first, actor="eve")
    then = ShareRule("owner", {"bob": 2.0}, age_step_seconds=1.5, age_max=4)
    await store_share_rule(tx, "q", then, actor="eve")
    stored = await lock_share_rule(tx, "q")
    assert stored is not None
    assert (stored.rule, stored.updated_by, stored.is_ending) == (then, "eve", False)
    assert await list_share_rules(tx, rules_max=9) == [stored]
    assert await list_share_rules(tx, queue="r", rules_max=9) == []
    assert await count_share_rules(tx) == 1


async def test_a_rule_ends_once_and_may_come_back(tx: Transaction) -> None:
    assert not await end_share_rule(tx, "q", actor="eve")
    await store_share_rule(tx, "q", ShareRule(), actor="eve")
    assert await end_share_rule(tx, "q", actor="bob")
    assert not await end_share_rule(tx, "q", actor="bob")
    [ending] = await list_share_rules(tx, rules_max=9)
    assert (ending.is_ending, ending.updated_by) == (True, "bob")
    await store_share_rule(tx, "q", ShareRule(), actor="eve")
    [back] = await list_share_rules(tx, rules_max=9)
    assert (back.is_ending, back.is_sorted) == (False, False)
