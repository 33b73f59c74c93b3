"""Give a running attempt its turn at a rate that it asks for by name."""

import math
from typing import NamedTuple

from holdfast.errors import Invalid, NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import CONCURRENCY, WINDOW_MARGIN, StoredLimit
from holdfast.model.work.fence import Fence
from holdfast.operations.own_attempt import check_lease
from holdfast.rules.limits.turns import Turn, count_at_most, take_from_window, take_tokens
from holdfast.rules.limits.usage import check_limit_name
from holdfast.store.database import Transaction
from holdfast.store.tables.limits import usage_limits

PATIENCE_MAX = 3600.0
# A window is written down by so many slices of its period.
SLICES = 100


class Wait(NamedTuple):
    """In how many seconds it may go on; None for never. If that is too long, nothing is taken."""

    seconds: float | None
    is_granted: bool


async def take_turn(
    ledger: Ledger, fence: Fence, name: str, *, count: float, patience: float
) -> Wait:
    """Take from a limit by its name, unless the turn would come later than `patience` seconds."""
    check_limit_name(name)
    if not math.isfinite(count) or count <= 0:
        raise Invalid("count", f"is {count:g}; take more than nothing")
    if not 0 <= patience <= PATIENCE_MAX:
        raise Invalid("patience", f"is {patience:g}; give 0 to {PATIENCE_MAX:g} seconds")
    return await ledger.write(_take, fence, name=name, count=count, patience=patience)


async def _take(
    _: Ledger, tx: Transaction, fence: Fence, *, name: str, count: float, patience: float
) -> Wait:
    await usage_limits.share_limits(tx)
    await check_lease(tx, fence)
    stored = await usage_limits.find_limit(tx, name)
    if stored is None:
        raise NotFound("limit", name)
    _check(stored, count)
    bucket = await usage_limits.hold_bucket(tx, stored.limit_id, name)
    limit, now = stored.limit, await tx.now()
    turn: Turn | None
    if limit.kind == "bucket":
        turn = take_tokens(limit, bucket.tokens, bucket.filled_at, count=count, now=now)
    else:
        assert limit.period is not None, "a rate has a period"
        slices = await usage_limits.list_slices(
            tx, bucket.bucket_id, window_seconds=limit.period * WINDOW_MARGIN, now=now
        )
        turn = take_from_window(limit, slices, count=count, now=now)
    if turn is None:
        return Wait(None, False)
    seconds = (turn.at - now).total_seconds()
    if seconds > patience:
        return Wait(seconds, False)
    if turn.tokens is not None:
        await usage_limits.fill_bucket(tx, bucket.bucket_id, turn.tokens, now=now)
    else:
        assert limit.period is not None, "a rate has a period"
        await usage_limits.spend_at(
            tx, bucket.bucket_id, count, at=turn.at, slice_seconds=limit.period / SLICES
        )
    return Wait(seconds, True)


def _check(stored: StoredLimit, count: float) -> None:
    limit = stored.limit
    if limit.scope != "name":
        problem = f"{stored.name!r} is per {limit.scope}; ask for one of scope 'name'"
        raise Invalid("name", problem)
    if limit.kind == CONCURRENCY:
        problem = f"{stored.name!r} is one of slots; ask for a rate, or limit a queue or key by it"
        raise Invalid("name", problem)
    if limit.most > 0 and count > count_at_most(limit):
        problem = f"is {count:g}, and limit {stored.name} gives {count_at_most(limit):g} at once"
        raise Invalid("count", problem)
