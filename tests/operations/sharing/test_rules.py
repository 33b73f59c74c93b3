"""Rules of shares: set, changed and taken back."""

import pytest

from holdfast.errors import Invalid, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.shares import PLACED, ShareRule
from holdfast.operations.sharing.rules import set_share_rule, unset_share_rule
from tests.clock import Clock
from tests.world import World

ACTIONS = "select actor, action, subject, facts::text from holdfast.actions order by action_id"


async def test_each_change_is_an_action_and_a_repeat_is_none(ledger: Ledger, clock: Clock) -> None:
    rule = ShareRule("owner", {"ann": 3.0})
    stored = await set_share_rule(ledger, "q", rule, actor="eve")
    assert (stored.queue, stored.rule, stored.updated_by) == ("q", rule, "eve")
    assert await set_share_rule(ledger, "q", rule, actor="bob") == stored
    await set_share_rule(ledger, PLACED, ShareRule("key"), actor="bob")
    assert await unset_share_rule(ledger, "q", actor="bob")
    assert not await unset_share_rule(ledger, "q", actor="bob")
    assert not await unset_share_rule(ledger, "r", actor="bob")
    rows = [tuple(row)[:3] for row in await clock.fetch(ACTIONS)]
    assert rows == [
        ("eve", "set_shares", "q"),
        ("bob", "set_shares", "(placed)"),
        ("bob", "unset_shares", "q"),
    ]


async def test_by_what_a_queue_is_shared_does_not_change_under_way(
    ledger: Ledger, world: World
) -> None:
    await set_share_rule(ledger, "q", ShareRule("owner"), actor="eve")
    with pytest.raises(Refused, match="queue q is shared by owner; unset that"):
        await set_share_rule(ledger, "q", ShareRule("key"), actor="eve")
    await unset_share_rule(ledger, "q", actor="eve")
    with pytest.raises(Refused, match="is still being taken back by owner"):
        await set_share_rule(ledger, "q", ShareRule("key"), actor="eve")
    assert await world.count("share_rules") == 1


async def test_a_bad_rule_changes_nothing(ledger: Ledger, world: World) -> None:
    with pytest.raises(Invalid):
        await set_share_rule(ledger, "q", ShareRule(weights={"ann": 0.0}), actor="eve")
    with pytest.raises(Invalid):
        await set_share_rule(ledger, "a\x00", ShareRule(), actor="eve")
    with pytest.raises(Invalid):
        await unset_share_rule(ledger, "q", actor="\x00")
    assert await world.count("share_rules") == await world.count("actions") == 0
