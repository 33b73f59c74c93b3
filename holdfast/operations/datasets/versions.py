"""Datasets and their versions: created, opened, dropped. Cut-overs have a file of their own."""

from typing import Any

import msgspec

from holdfast.errors import IllegalMove, NotFound, TooLarge
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.datasets import METADATA_BYTES_MAX
from holdfast.rules.submitting.outputs import check_name
from holdfast.rules.submitting.submission import check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.reads.datasets import DatasetRow, get_dataset
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.datasets import versions
from holdfast.store.tables.datasets.entries import (
    copy_entries,
    count_entries,
    delete_dropped_entries,
)
from holdfast.store.tables.datasets.outputs import list_writers
from holdfast.store.tables.datasets.versions import Version, VersionState

COPIED_MAX = 300_000  # about ten seconds, within the patience of clients
SWEPT_MAX = 5000
WRITERS_NAMED_MAX = 10


class Opened(msgspec.Struct, frozen=True):
    """A version that has been opened."""

    version: int


async def create_dataset(
    ledger: Ledger, name: str, *, actor: str, metadata: dict[str, Any] | None = None
) -> tuple[DatasetRow, bool]:
    """Create a dataset, unless it is there; says whether it is new.

    Raises IllegalMove if it is there with other metadata than those that are given.
    """
    check_name("name", name)
    check_text("actor", actor, 256)
    text = msgspec.json.encode(metadata or {}).decode()
    check_json("metadata", text, METADATA_BYTES_MAX)
    async with ledger.database.transaction() as tx:
        is_new = await versions.insert_dataset(tx, name, actor=actor, metadata=text)
        found = await get_dataset(tx, name)
    if not is_new and metadata and msgspec.json.decode(found.metadata) != metadata:
        raise IllegalMove(f"dataset {name}", "there with other metadata", "create")
    return found, is_new


async def open_version(
    ledger: Ledger,
    dataset: str,
    *,
    actor: str,
    based_on: int | None = None,
    idempotency_key: str | None = None,
) -> Opened:
    """Open the next version: empty, or with the entries of another one to begin with."""
    check_name("dataset", dataset)
    check_text("actor", actor, 256)
    keyed = request_key("open version", actor, idempotency_key, request=[dataset, based_on])
    return await write_once(
        ledger, keyed, _open_version, dataset, returns=Opened, actor=actor, based_on=based_on
    )


async def _open_version(
    _: Ledger, tx: Transaction, dataset: str, *, actor: str, based_on: int | None
) -> Opened:
    await lock_dataset(tx, dataset)
    if based_on is not None:
        source = Version(dataset, based_on)
        state = await versions.hold_version(tx, source)
        check_version(source, state, request="open a version based on")
        count, _size = await count_entries(tx, source, count_max=COPIED_MAX + 1)
        if count > COPIED_MAX:
            raise TooLarge("based_on", count, COPIED_MAX, unit="entries")
    number = await versions.open_version(tx, dataset, actor=actor, based_on=based_on)
    if based_on is not None:
        await copy_entries(tx, Version(dataset, number), based_on=based_on)
    return Opened(number)


async def drop_version(ledger: Ledger, dataset: str, version: int, *, actor: str) -> bool:
    """Drop a version: its entries go, its record stays; False if it was dropped before.

    Raises IllegalMove for the current one, and for one that live jobs are writing.
    """
    check_name("dataset", dataset)
    check_text("actor", actor, 256)
    return await ledger.write(_drop_version, Version(dataset, version), actor=actor)


async def _drop_version(_: Ledger, tx: Transaction, version: Version, *, actor: str) -> bool:
    current = await lock_dataset(tx, version.dataset)
    state = await versions.lock_version(tx, version)
    if state == "dropped":
        return False
    check_version(version, state, request="drop")
    if version.number == current:
        problem = "the current one; cut over to another one first"
        raise IllegalMove(str(version), problem, "drop")
    await refuse_writers(tx, version, request="drop", remedy="cancel them first")
    await versions.drop_version(tx, version, actor=actor)
    facts = {"version": version.number}
    did = NewAction(actor, "drop_version", "dataset", version.dataset, facts=facts)
    await record_actions(tx, [did])
    return True


async def sweep_dropped(ledger: Ledger) -> int:
    """Delete some of what dropped versions have held; returns how many entries went."""
    async with ledger.database.transaction() as tx:
        version = await versions.take_dropped_version(tx)
        if version is None:
            return 0
        count = await delete_dropped_entries(tx, version, batch_max=SWEPT_MAX)
        if count < SWEPT_MAX:
            await versions.mark_swept(tx, version)
    return count


async def lock_dataset(tx: Transaction, dataset: str) -> int | None:
    """Lock a dataset and give its current version. Raises NotFound."""
    found = await versions.lock_datasets(tx, [dataset])
    if dataset not in found:
        raise NotFound("dataset", dataset)
    return found[dataset]


async def refuse_writers(tx: Transaction, version: Version, *, request: str, remedy: str) -> None:
    """Raise IllegalMove if live jobs are bound to a version that is locked."""
    writers = await list_writers(tx, version, count_max=WRITERS_NAMED_MAX)
    if writers:
        jobs = ", ".join(map(str, writers))
        state = f"being written by jobs that have not ended ({jobs}); {remedy}"
        raise IllegalMove(str(version), state, request)


def check_version(version: Version, state: VersionState | None, *, request: str) -> None:
    """Refuse a version that is not there, or not any more."""
    if state is None:
        raise NotFound(f"dataset {version.dataset} with a version", version.number)
    if state == "dropped":
        raise IllegalMove(str(version), "dropped", request)
