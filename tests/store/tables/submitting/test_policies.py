"""The tables of policies through their functions."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import PolicyDefaults, TypePolicy
from holdfast.operations.policies import set_policy
from holdfast.store.database import Transaction
from holdfast.store.tables.submitting.policies import (
    NO_CHANGES,
    NewPolicyChange,
    count_policies,
    delete_policy,
    find_policy,
    list_job_types,
    list_policies,
    list_policy_changes,
    load_policies,
    lock_policies,
    record_policy_change,
    store_policy,
)
from tests.world import World

POLICY = TypePolicy(PolicyDefaults(priority=3))


async def test_a_policy_is_stored_with_the_change_that_made_it(
    world: World, tx: Transaction
) -> None:
    await world.submit(type="t")
    await lock_policies(tx)
    version = await record_policy_change(tx, NewPolicyChange("t", None, POLICY, "me"))
    stored = await store_policy(tx, "t", POLICY, version=version, actor="me")
    assert (stored.policy, stored.version, stored.updated_by) == (POLICY, 1, "me")
    assert await find_policy(tx, "t") == stored
    assert await list_policies(tx, after="", batch_max=9) == [stored]
    assert await list_job_types(tx, after="", batch_max=9) == ["t"]
    [change] = await list_policy_changes(tx, "t", below=9, batch_max=9)
    assert (change.version, change.before, change.after) == (1, None, POLICY)
    assert await count_policies(tx) == 1
    await delete_policy(tx, "t")
    assert await find_policy(tx, "t") is None


async def test_the_book_is_empty_at_first_and_has_every_policy_later(ledger: Ledger) -> None:
    assert await load_policies(ledger.database) == NO_CHANGES
    policy = TypePolicy(PolicyDefaults(lease=60.0))
    for name in ("a", "b"):
        await set_policy(ledger, name, policy, actor="ann")
    assert await load_policies(ledger.database) == (2, {"a": policy, "b": policy}, {})
