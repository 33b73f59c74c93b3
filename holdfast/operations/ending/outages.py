"""Whether a lease ran out because nobody was there to renew it: then its loss costs nothing."""

from collections.abc import Callable
from datetime import datetime

from holdfast.rules.outage import Watch, is_free, next_watch
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LEASES = load_statements("leases")


async def read_outage(tx: Transaction) -> Callable[[datetime], bool]:
    """Return a test for leases by expiry; a worker may report before the reaper has passed."""
    row = await tx.fetch_one(_LEASES["read_reaper"])
    assert row is not None, "there is always one row of the reaper's"
    *noted, now = row
    watch = next_watch(Watch(*noted), now)

    def is_lost_to_it(expires_at: datetime) -> bool:
        return expires_at <= now and is_free(watch, expires_at)

    return is_lost_to_it
