"""Policies as a process reads them: all at once, with the version that they make up."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.policies import PolicyDefaults, TypePolicy
from holdfast.operations.policies import set_policy
from holdfast.store.policies import NO_CHANGES, load_policies


async def test_the_book_is_empty_at_first_and_has_every_policy_later(ledger: Ledger) -> None:
    assert await load_policies(ledger.database) == NO_CHANGES
    policy = TypePolicy(PolicyDefaults(lease=60.0))
    for name in ("a", "b"):
        await set_policy(ledger, name, policy, actor="ann")
    assert await load_policies(ledger.database) == (2, {"a": policy, "b": policy})
