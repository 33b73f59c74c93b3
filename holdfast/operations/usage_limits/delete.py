"""Delete a limit of use; what it held back is put in line again."""

from holdfast.ledger.ledger import Ledger
from holdfast.operations.usage_limits.open import BATCH_MAX, open_forgotten
from holdfast.operations.usage_limits.put import describe
from holdfast.rules.limits.usage import check_limit_name
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.limits import usage_limits

# As much is opened before the answer; a chore does the rest.
BATCHES_MAX = 10


async def delete_limit(ledger: Ledger, name: str, *, actor: str) -> bool:
    """Delete a limit: from now on nothing waits for it; False if there was none."""
    check_limit_name(name)
    check_text("actor", actor, 256)
    if not await ledger.write(_delete, name, actor=actor):
        return False
    for _ in range(BATCHES_MAX):
        if await open_forgotten(ledger) < BATCH_MAX:
            break
    return True


async def _delete(_: Ledger, tx: Transaction, name: str, *, actor: str) -> bool:
    await usage_limits.lock_limits(tx)
    before = await usage_limits.find_limit(tx, name)
    if before is None:
        return False
    await usage_limits.delete_limit(tx, before.limit_id)
    facts = {"before": describe(before.limit), "after": None}
    await record_actions(tx, [NewAction(actor, "delete_limit", "limit", name, facts=facts)])
    return True
