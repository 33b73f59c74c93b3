"""Gangs that cannot start as a whole, and what is kept for them."""

import logging

from holdfast.ledger.ledger import Ledger
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.placed.ready import keep_for_gang

log = logging.getLogger("holdfast.place")
# After the last pass that had workers for it; a pass comes every second.
KEPT_SECONDS = 10.0


class GangIncomplete(Exception):
    """A member was taken, cancelled or limited since the plan was made: the gang waits on."""

    def __init__(self, job_id: int, *, is_limited: bool) -> None:
        super().__init__(f"gang {job_id} cannot start as a whole")
        self.job_id = job_id
        self.is_limited = is_limited


async def keep_limits_for(ledger: Ledger, job_id: int) -> None:
    """Let nobody who comes later take what a gang's limits have too little of."""
    try:
        await ledger.write(_keep, job_id)
    except LockTimeout as error:  # the next pass does it
        log.info("limits are not kept for a gang in this pass: %s", error)


async def _keep(_: Ledger, tx: Transaction, job_id: int) -> None:
    await keep_for_gang(tx, job_id, seconds=KEPT_SECONDS)
