"""Datasets and their versions: created, opened, dropped. Cut-overs have a file of their own."""

from typing import Any

import msgspec

from holdfast.errors import IllegalMove, NotFound, TooLarge
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.datasets import METADATA_BYTES_MAX
from holdfast.rules.outputs import check_name
from holdfast.rules.submission import check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.datasets import DatasetRow, get_dataset
from holdfast.store.statements import load_statements

_DATASETS = load_statements("datasets")
COPIED_MAX = 300_000  # about ten seconds, within the patience of clients
SWEPT_MAX = 5000
WRITERS_TOLD_MAX = 10


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
        made = await tx.fetch_one(
            _DATASETS["insert_dataset"], name=name, actor=actor, metadata=text
        )
        found = await get_dataset(tx, name)
    if made is None and metadata and msgspec.json.decode(found.metadata) != metadata:
        raise IllegalMove(f"dataset {name}", "there with other metadata", "create")
    return found, made is not None


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
        held = await tx.fetch_one(_DATASETS["hold_version"], dataset=dataset, version=based_on)
        check_version(dataset, based_on, held and held[0], request="open a version based on")
        count, _size = await count_entries(tx, dataset, based_on, count_max=COPIED_MAX + 1)
        if count > COPIED_MAX:
            raise TooLarge("based_on", count, COPIED_MAX, unit="entries")
    row = await tx.fetch_one(
        _DATASETS["open_version"],
        dataset=dataset,
        actor=actor,
        based_on=based_on,
        opened_by_job=None,
    )
    assert row is not None, "a version is opened in a dataset that is there"
    if based_on is not None:
        values = {"dataset": dataset, "version": row[0], "based_on": based_on}
        await tx.fetch(_DATASETS["copy_entries"], **values)
    return Opened(row[0])


async def drop_version(ledger: Ledger, dataset: str, version: int, *, actor: str) -> bool:
    """Drop a version: its entries go, its record stays; False if it was dropped before.

    Raises IllegalMove for the current one, and for one that live jobs are writing.
    """
    check_name("dataset", dataset)
    check_text("actor", actor, 256)
    return await ledger.write(_drop_version, dataset, version=version, actor=actor)


async def _drop_version(
    _: Ledger, tx: Transaction, dataset: str, *, version: int, actor: str
) -> bool:
    current = await lock_dataset(tx, dataset)
    subject = f"version {version} of dataset {dataset}"
    state = await lock_version(tx, dataset, version)
    if state == "dropped":
        return False
    check_version(dataset, version, state, request="drop")
    if version == current:
        raise IllegalMove(subject, "the current one; cut over to another one first", "drop")
    await refuse_writers(tx, dataset, version, request="drop", remedy="cancel them first")
    await tx.fetch(_DATASETS["drop_version"], dataset=dataset, version=version, actor=actor)
    return True


async def sweep_dropped(ledger: Ledger) -> int:
    """Delete some of what dropped versions have held; returns how many entries went."""
    async with ledger.database.transaction() as tx:
        row = await tx.fetch_one(_DATASETS["take_dropped_version"])
        if row is None:
            return 0
        values = {"dataset": row[0], "version": row[1]}
        gone = await tx.fetch(_DATASETS["delete_dropped_entries"], **values, batch_max=SWEPT_MAX)
        if len(gone) < SWEPT_MAX:
            await tx.fetch(_DATASETS["mark_swept"], **values)
    return len(gone)


async def lock_dataset(tx: Transaction, dataset: str) -> int | None:
    """Lock a dataset and give its current version. Raises NotFound."""
    rows = await tx.fetch(_DATASETS["lock_datasets"], names=[dataset])
    if not rows:
        raise NotFound("dataset", dataset)
    current: int | None = rows[0][1]
    return current


async def lock_version(tx: Transaction, dataset: str, version: int) -> str | None:
    """Lock a version and give its state, or None if there is no such version."""
    row = await tx.fetch_one(_DATASETS["lock_version"], dataset=dataset, version=version)
    return None if row is None else row[0]


async def count_entries(
    tx: Transaction, dataset: str, version: int, *, count_max: int
) -> tuple[int, int]:
    """Count the entries of a version and their bytes, up to a bound."""
    row = await tx.fetch_one(
        _DATASETS["count_entries"], dataset=dataset, version=version, count_max=count_max
    )
    assert row is not None, "a count has a row"
    return row[0], row[1]


async def refuse_writers(
    tx: Transaction, dataset: str, version: int, *, request: str, remedy: str
) -> None:
    """Raise IllegalMove if live jobs are bound to a version that is locked."""
    rows = await tx.fetch(
        _DATASETS["list_writers"], dataset=dataset, version=version, count_max=WRITERS_TOLD_MAX
    )
    if rows:
        jobs = ", ".join(str(row[0]) for row in rows)
        state = f"being written by jobs that have not ended ({jobs}); {remedy}"
        raise IllegalMove(f"version {version} of dataset {dataset}", state, request)


def check_version(dataset: str, version: int, state: str | None, *, request: str) -> None:
    """Refuse a version that is not there, or not any more."""
    if state is None:
        raise NotFound(f"dataset {dataset} with a version", version)
    if state == "dropped":
        raise IllegalMove(f"version {version} of dataset {dataset}", "dropped", request)
