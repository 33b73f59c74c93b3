"""Rules of shares: set and taken back by operators, at run time; every change is an action."""

from holdfast.errors import Refused, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.shares import ShareRule, StoredShareRule
from holdfast.rules.limits.shares import check_share_queue, check_share_rule
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.limits import shares

RULES_MAX = 1000


def name_subject(queue: str) -> str:
    """Name what a rule is of, as no queue can be called."""
    return queue or "(placed)"


async def set_share_rule(
    ledger: Ledger, queue: str, rule: ShareRule, *, actor: str
) -> StoredShareRule:
    """Share a queue by a rule from now on, '' being placed work; a repeat changes nothing."""
    check_share_rule(queue, rule)
    check_text("actor", actor, 256)
    return await ledger.write(_set_share_rule, queue, rule=rule, actor=actor)


async def _set_share_rule(
    _: Ledger, tx: Transaction, queue: str, *, rule: ShareRule, actor: str
) -> StoredShareRule:
    before = await shares.lock_share_rule(tx, queue)
    if before is None:
        count = await shares.count_share_rules(tx)
        if count >= RULES_MAX:
            raise TooLarge("queue", count + 1, RULES_MAX, unit="rules of shares")
    elif before.rule.share_by != rule.share_by:
        problem = "is still being taken back" if before.is_ending else "is shared"
        raise Refused(
            f"queue {queue or 'of placed work'} {problem} by {before.rule.share_by}; unset that "
            "rule first, and set this one when `holdfast shares` no longer lists it"
        )
    elif before.rule == rule and not before.is_ending:
        return before
    await shares.store_share_rule(tx, queue, rule, actor=actor)
    facts = {
        "by": rule.share_by,
        "weights": len(rule.weights),
        "age_step_seconds": rule.age_step_seconds,
        "age_max": rule.age_max,
    }
    await record_actions(
        tx, [NewAction(actor, "set_shares", "queue", name_subject(queue), facts=facts)]
    )
    stored = await shares.lock_share_rule(tx, queue)
    assert stored is not None, "a rule was stored and is gone"
    return stored


async def unset_share_rule(ledger: Ledger, queue: str, *, actor: str) -> bool:
    """Take the rule of a queue back; what stands in shares returns to line. False without one."""
    check_share_queue(queue)
    check_text("actor", actor, 256)
    return await ledger.write(_unset_share_rule, queue, actor=actor)


async def _unset_share_rule(_: Ledger, tx: Transaction, queue: str, *, actor: str) -> bool:
    if not await shares.end_share_rule(tx, queue, actor=actor):
        return False
    await record_actions(tx, [NewAction(actor, "unset_shares", "queue", name_subject(queue))])
    return True
