"""Make a version of a dataset the one that readers get: at once, for all, and recorded."""

from datetime import datetime

import msgspec

from holdfast.errors import Invalid
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.operations.datasets.triggers import request_runs
from holdfast.operations.datasets.versions import (
    check_version,
    count_entries,
    lock_dataset,
    lock_version,
    refuse_writers,
)
from holdfast.rules.outputs import VERSION_MAX, check_name
from holdfast.rules.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_DATASETS = load_statements("datasets")
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
        dataset,
        returns=CutOver,
        version=version,
        actor=actor,
        reason=reason,
        force=force,
    )


async def _cut_over(
    _: Ledger,
    tx: Transaction,
    dataset: str,
    *,
    version: int,
    actor: str,
    reason: str | None,
    force: bool,
) -> CutOver:
    previous = await lock_dataset(tx, dataset)
    state = await lock_version(tx, dataset, version)
    check_version(dataset, version, state, request="cut over to")
    if previous == version:
        return CutOver(version, previous, await tx.now(), changed=False)
    if state == "open" and not force:
        remedy = "wait for them, cancel them, or force it"
        await refuse_writers(tx, dataset, version, request="cut over to", remedy=remedy)
    now = await tx.now()
    if state == "open":
        await _seal(tx, dataset, version, now=now)
    await tx.fetch(_DATASETS["set_current_version"], dataset=dataset, version=version)
    await tx.fetch(
        _DATASETS["record_cut_over"],
        dataset=dataset,
        version=version,
        previous=previous,
        now=now,
        actor=actor,
        reason=reason,
        forced=force,
    )
    triggered = await request_runs(tx, dataset, version, now=now)
    return CutOver(version, previous, now, changed=True, triggered=triggered)


async def _seal(tx: Transaction, dataset: str, version: int, *, now: datetime) -> None:
    """Let nothing more into a version, and write down what it holds."""
    entries, size = await count_entries(tx, dataset, version, count_max=ENTRIES_COUNTED_MAX)
    await tx.fetch(
        _DATASETS["seal_version"],
        dataset=dataset,
        version=version,
        now=now,
        entries=entries,
        size=size,
    )
