"""The tables of datasets and their versions. Locked in this order: the dataset, then versions."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_DATASETS = load_statements("datasets/datasets")

VersionState = Literal["open", "sealed", "dropped"]


class Version(NamedTuple):
    """One version of a dataset."""

    dataset: str
    number: int

    def __str__(self) -> str:
        return f"version {self.number} of dataset {self.dataset}"


async def insert_dataset(tx: Transaction, name: str, *, actor: str, metadata: str) -> bool:
    """Store a dataset, its metadata a JSON text; False if it is there."""
    row = await tx.fetch_one(_DATASETS["insert_dataset"], name=name, actor=actor, metadata=metadata)
    return row is not None


async def lock_datasets(tx: Transaction, names: Iterable[str]) -> dict[str, int | None]:
    """Lock datasets and give their current versions; those that do not exist are left out."""
    return dict(await tx.fetch(_DATASETS["lock_datasets"], names=sorted(names)))


async def open_version(
    tx: Transaction,
    dataset: str,
    *,
    actor: str | None,
    based_on: int | None = None,
    opened_by_job: int | None = None,
) -> int:
    """Open the next version of a locked dataset; returns its number."""
    row = await tx.fetch_one(
        _DATASETS["open_version"],
        dataset=dataset,
        actor=actor,
        based_on=based_on,
        opened_by_job=opened_by_job,
    )
    assert row is not None, "a version is opened in a dataset that is there"
    number: int = row[0]
    return number


async def delete_versions_of_submission(tx: Transaction, job_ids: Iterable[int]) -> None:
    """Forget the versions that were opened for jobs which did not become any."""
    await tx.fetch(_DATASETS["delete_versions_of_submission"], job_ids=sorted(job_ids))


async def hold_version(tx: Transaction, version: Version) -> VersionState | None:
    """Hold a version, so that it is neither sealed nor dropped; others may append beside us."""
    row = await tx.fetch_one(
        _DATASETS["hold_version"], dataset=version.dataset, version=version.number
    )
    return None if row is None else row[0]


async def lock_version(tx: Transaction, version: Version) -> VersionState | None:
    """Lock a version and give its state, or None if there is no such version."""
    row = await tx.fetch_one(
        _DATASETS["lock_version"], dataset=version.dataset, version=version.number
    )
    return None if row is None else row[0]


async def let_version_be_replaced(tx: Transaction, version: Version) -> None:
    """Note that entries of a locked version may be replaced."""
    await tx.fetch(
        _DATASETS["let_version_be_replaced"], dataset=version.dataset, version=version.number
    )


async def find_open_versions(tx: Transaction, names: Iterable[str]) -> dict[str, int | None]:
    """Find the newest open version of each dataset; datasets that do not exist are left out."""
    return dict(await tx.fetch(_DATASETS["find_open_versions"], names=sorted(names)))


async def seal_version(
    tx: Transaction, version: Version, *, now: datetime, entries: int, size: int
) -> None:
    """Let nothing more into a locked version that is open, and note what it holds."""
    await tx.fetch(
        _DATASETS["seal_version"],
        dataset=version.dataset,
        version=version.number,
        now=now,
        entries=entries,
        size=size,
    )


async def set_current_version(tx: Transaction, version: Version) -> None:
    """Make a version the one that readers of a locked dataset get."""
    await tx.fetch(
        _DATASETS["set_current_version"], dataset=version.dataset, version=version.number
    )


async def record_cut_over(
    tx: Transaction,
    version: Version,
    *,
    previous: int | None,
    now: datetime,
    actor: str,
    reason: str | None,
    forced: bool,
) -> None:
    """Record that a version has become the current one."""
    await tx.fetch(
        _DATASETS["record_cut_over"],
        dataset=version.dataset,
        version=version.number,
        previous=previous,
        now=now,
        actor=actor,
        reason=reason,
        forced=forced,
    )


async def drop_version(tx: Transaction, version: Version, *, actor: str) -> None:
    """Note that a locked version is dropped; its entries go later."""
    await tx.fetch(
        _DATASETS["drop_version"], dataset=version.dataset, version=version.number, actor=actor
    )


async def take_dropped_version(tx: Transaction) -> Version | None:
    """Lock a dropped version that still has entries; None if there is none that is free."""
    row = await tx.fetch_one(_DATASETS["take_dropped_version"])
    return None if row is None else Version._make(row)


async def mark_swept(tx: Transaction, version: Version) -> None:
    """Note that a dropped version has no entries any more."""
    await tx.fetch(_DATASETS["mark_swept"], dataset=version.dataset, version=version.number)
