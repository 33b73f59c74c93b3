"""Set a limit of use, or change one that holds: nothing that runs is ended by it."""

from typing import NamedTuple

import msgspec

from holdfast.errors import TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import StoredLimit, UsageLimit
from holdfast.rules.limits.usage import (
    check_change,
    check_held,
    check_limit_name,
    complete_limit,
    is_about_others,
)
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.reads.limits.usage_limits import LimitUse, count_use
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.limits import limits, usage_limits

# Whoever claims looks at them all.
LIMITS_MAX = 1000
# What a change lets go before it is answered, so that nobody who claims waits for long.
OPENED_BUCKETS_MAX = 100
OPENED_TASKS_MAX = 100


class PutLimit(NamedTuple):
    """A limit as it is now, whether that is new, and what is held and gated of it."""

    stored: StoredLimit
    is_changed: bool
    use: LimitUse


async def put_limit(ledger: Ledger, name: str, limit: UsageLimit, *, actor: str) -> PutLimit:
    """Set a limit for all that starts from now on; a repeat changes nothing."""
    check_limit_name(name)
    check_text("actor", actor, 256)
    return await ledger.write(_put, name, limit=complete_limit(limit), actor=actor)


async def _put(_: Ledger, tx: Transaction, name: str, *, limit: UsageLimit, actor: str) -> PutLimit:
    await usage_limits.lock_limits(tx)
    known = await usage_limits.list_limits(tx, after="", batch_max=LIMITS_MAX)
    before = next((each for each in known if each.name == name), None)
    if before is not None and before.limit == limit:
        return PutLimit(before, False, await _use(tx, before))
    if before is not None:
        check_change(before.limit, limit)
    elif len(known) >= LIMITS_MAX:
        raise TooLarge("name", len(known) + 1, LIMITS_MAX, unit="limits")
    check_held(limit, [each.limit for each in known if each.name != name])
    if before is not None and is_about_others(before.limit, limit):
        # Who has nothing to do with it any more would wait for ever; a chore lets him go.
        await usage_limits.forget_buckets(tx, before.limit_id)
    stored = await usage_limits.store_limit(tx, name, limit, actor=actor)
    await usage_limits.recount_slots(tx, stored.limit_id)
    if before is not None:
        await _open(tx, stored)
    facts = {
        "before": None if before is None else describe(before.limit),
        "after": describe(limit),
    }
    await record_actions(tx, [NewAction(actor, "put_limit", "limit", name, facts=facts)])
    return PutLimit(stored, True, await _use(tx, stored))


async def _open(tx: Transaction, stored: StoredLimit) -> None:
    """Let go at once what has waited for room that there is now."""
    opened = await limits.open_changed(
        tx, stored.limit_id, buckets_max=OPENED_BUCKETS_MAX, tasks_max=OPENED_TASKS_MAX
    )
    tx.news.add_all_opened(opened.queues, opened.job_ids, opened.task_indexes)


async def _use(tx: Transaction, stored: StoredLimit) -> LimitUse:
    return (await count_use(tx, [stored.limit_id]))[stored.limit_id]


def describe(limit: UsageLimit) -> dict[str, object]:
    """List what a limit says, for the record."""
    fields = msgspec.structs.asdict(limit)
    return {name: value for name, value in fields.items() if value is not None}
