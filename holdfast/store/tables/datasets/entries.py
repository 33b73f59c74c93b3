"""The tables of what versions of datasets hold, and of the commits that wrote it."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.rules.commits import EntryKey, NewEntry, Standing
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import attempt_columns
from holdfast.store.tables.datasets.versions import Version

_DATASETS = load_statements("datasets/datasets")


class EntryCount(NamedTuple):
    """How many entries there are, and how many bytes they name."""

    entries: int
    size: int


async def count_entries(tx: Transaction, version: Version, *, count_max: int) -> EntryCount:
    """Count the entries of a version and their bytes, up to a bound."""
    row = await tx.fetch_one(
        _DATASETS["count_entries"],
        dataset=version.dataset,
        version=version.number,
        count_max=count_max,
    )
    assert row is not None, "a count has a row"
    return EntryCount._make(row)


async def copy_entries(tx: Transaction, version: Version, *, based_on: int) -> None:
    """Begin a version with the entries of another one."""
    await tx.fetch(
        _DATASETS["copy_entries"],
        dataset=version.dataset,
        version=version.number,
        based_on=based_on,
    )


async def find_entries(tx: Transaction, keys: Sequence[EntryKey]) -> dict[EntryKey, Standing]:
    """Find what stands under keys."""
    rows = await tx.fetch(
        _DATASETS["find_entries"],
        datasets=[key.dataset for key in keys],
        versions=[key.version for key in keys],
        keys=[key.key for key in keys],
    )
    return {EntryKey._make(row[:3]): Standing._make(row[3:]) for row in rows}


async def delete_partitions(tx: Transaction, partitions: Sequence[tuple[str, int, str]]) -> None:
    """Delete what stands in partitions: the dataset, the version, and the partition's key."""
    await tx.fetch(
        _DATASETS["delete_partitions"],
        datasets=[dataset for dataset, _, _ in partitions],
        versions=[version for _, version, _ in partitions],
        partition_keys=[key for _, _, key in partitions],
    )


class Writer(NamedTuple):
    """The attempt that writes."""

    task_id: TaskId
    attempt: int


async def insert_commits(tx: Transaction, commits: Sequence[tuple[Writer, int]]) -> None:
    """Store that attempts have committed, and how many entries each."""
    await tx.fetch(
        _DATASETS["insert_commits"],
        **attempt_columns([writer for writer, _ in commits]),
        entries=[count for _, count in commits],
    )


async def insert_entries(tx: Transaction, entries: Sequence[tuple[Writer, NewEntry]]) -> int:
    """Store entries; returns how many, fewer if somebody has committed one of the keys."""
    new = [entry for _, entry in entries]
    rows = await tx.fetch(
        _DATASETS["insert_entries"],
        **attempt_columns([writer for writer, _ in entries]),
        datasets=[entry.entry_key.dataset for entry in new],
        versions=[entry.entry_key.version for entry in new],
        keys=[entry.entry_key.key for entry in new],
        partition_keys=[entry.partition_key for entry in new],
        uris=[entry.uri for entry in new],
        sizes=[entry.size_bytes for entry in new],
        checksums=[entry.checksum for entry in new],
        metadata=[entry.metadata for entry in new],
    )
    return len(rows)


async def delete_dropped_entries(tx: Transaction, version: Version, *, batch_max: int) -> int:
    """Delete some entries of a dropped version; returns how many."""
    rows = await tx.fetch(
        _DATASETS["delete_dropped_entries"],
        dataset=version.dataset,
        version=version.number,
        batch_max=batch_max,
    )
    return len(rows)
