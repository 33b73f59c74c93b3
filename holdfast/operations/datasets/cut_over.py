"""Make a version of a dataset the one that readers get: at once, for all, and recorded."""

from datetime import datetime

import msgspec

from holdfast.errors import Invalid
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.operations.datasets.versions import (
    check_version,
    lock_dataset,
    refuse_writers,
)
from holdfast.rules.submitting.outputs import VERSION_MAX, check_name
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.datasets.entries import count_entries
from holdfast.store.tables.datasets.triggers import request_runs
from holdfast.store.tables.datasets.versions import (
    Version,
    lock_version,
    record_cut_over,
    seal_version,
    set_current_version,
)

REASON_LENGTH_MAX = 1024
ENTRIES_COUNTED_MAX = 2**62


class CutOver(msgspec.Struct, frozen=True):
    """What a cut-over did; not changed if the version was the current one already."""

    version: int
    previous: int | None
    at: datetime
    changed: bool
    triggered: int = 0


async def cut_over(
    ledger: Ledger,
    dataset: str,
    version: int,
    *,
    actor: str,
    reason: str | None = None,
    force: bool = False,
    idempotency_key: str | None = None,
) -> CutOver:
    """Make a version the current one; one that was open is sealed by that.

    Raises IllegalMove while live jobs write it, unless forced: then their commits will be refused.
    """
    check_name("dataset", dataset)
    check_text("actor", actor, 256)
    check_text("reason", reason or "", REASON_LENGTH_MAX)
    if not 1 <= version <= VERSION_MAX:
        raise Invalid("version", f"is out of range; use 1 to {VERSION_MAX}")
    keyed = request_key(
        "cut-over", actor, idempotency_key, request=[dataset, version, reason, force]
    )
    return await write_once(
        ledger,
        keyed,
        _cut_over,
        Version(dataset, version),
        returns=CutOver,
        actor=actor,
        reason=reason,
        force=force,
    )


async def _cut_over(
    _: Ledger,
    tx: Transaction,
    version: Version,
    *,
    actor: str,
    reason: str | None,
    force: bool,
) -> CutOver:
    previous = await lock_dataset(tx, version.dataset)
    state = await lock_version(tx, version)
    check_version(version, state, request="cut over to")
    if previous == version.number:
        return CutOver(version.number, previous, await tx.now(), changed=False)
    if state == "open" and not force:
        remedy = "wait for them, cancel them, or force it"
        await refuse_writers(tx, version, request="cut over to", remedy=remedy)
    now = await tx.now()
    if state == "open":
        await _seal(tx, version, now=now)
    await set_current_version(tx, version)
    await record_cut_over(
        tx, version, previous=previous, now=now, actor=actor, reason=reason, forced=force
    )
    facts = {"version": version.number, "previous": previous, "forced": force}
    did = NewAction(actor, "cut_over", "dataset", version.dataset, reason, facts)
    await record_actions(tx, [did])
    triggered = await request_runs(tx, version, now=now)
    return CutOver(version.number, previous, now, changed=True, triggered=triggered)


async def _seal(tx: Transaction, version: Version, *, now: datetime) -> None:
    """Let nothing more into a version, and write down what it holds."""
    entries, size = await count_entries(tx, version, count_max=ENTRIES_COUNTED_MAX)
    await seal_version(tx, version, now=now, entries=entries, size=size)
