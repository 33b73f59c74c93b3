"""Datasets: their versions, entries, cut-overs and triggers.

A version that has been sealed never changes, so a reader who stays with its number never sees a
mix. What is read of one is read in one snapshot: it may be dropped at any moment.
"""

from datetime import datetime
from typing import NamedTuple

from holdfast.errors import IllegalMove, NotFound
from holdfast.model.datasets import VersionState
from holdfast.rules.comparison import Difference, compare_stretches
from holdfast.store.database import Transaction
from holdfast.store.pages import Page
from holdfast.store.statements import load_statements

_DATASETS = load_statements("reads/datasets")
TRIGGERS_MAX = 100
STRETCH = 1000
COMPARED_MAX = 50_000
NUMBER_MAX = 2**31 - 1


class DatasetRow(NamedTuple):
    """A dataset; `metadata` is a JSON text."""

    name: str
    created_at: datetime
    created_by: str
    metadata: str
    current_version: int | None
    newest_version: int | None


class VersionRow(NamedTuple):
    """A version; what it holds is counted when it is sealed."""

    version: int
    state: VersionState
    created_at: datetime
    created_by: str
    based_on: int | None
    opened_by_job: int | None
    cut_over_at: datetime | None
    entries: int | None
    size_bytes: int | None
    dropped_at: datetime | None
    dropped_by: str | None


class EntryRow(NamedTuple):
    """An entry, and the attempt that committed it; `metadata` is a JSON text."""

    key: str
    partition_key: str
    uri: str
    size_bytes: int | None
    checksum: str | None
    metadata: str | None
    job_id: int
    task_index: int
    attempt: int
    committed_at: datetime
    copied_from: int | None

    @property
    def content(self) -> object:
        """What must be the same in two versions, or the entry has changed."""
        return self[1:6]


class CutOverRow(NamedTuple):
    """A cut-over of a dataset, from the version before."""

    number: int
    version: int
    previous: int | None
    at: datetime
    actor: str
    reason: str | None
    forced: bool


class TriggerRow(NamedTuple):
    """A trigger, and what came of the newest version that it ran for; `spec` is a JSON text."""

    name: str
    spec: str
    created_at: datetime
    created_by: str
    changed_at: datetime
    last_version: int | None
    last_job_id: int | None
    last_started_at: datetime | None
    problem: str | None


class Comparison(NamedTuple):
    """How two versions differ, up to a key; None if that is all."""

    differences: list[Difference]
    next_after: str | None


async def get_dataset(tx: Transaction, name: str) -> DatasetRow:
    """Read one dataset. Raises NotFound."""
    row = await tx.fetch_one(_DATASETS["get_dataset"], name=name)
    if row is None:
        raise NotFound("dataset", name)
    return DatasetRow(*row)


async def list_datasets(
    tx: Transaction, prefix: str = "", *, after: str = "", page_size: int
) -> Page[DatasetRow, str]:
    """List datasets by name."""
    rows = await tx.fetch(
        _DATASETS["list_datasets"], prefix=prefix, after=after, count_max=page_size + 1
    )
    found = [DatasetRow(*row) for row in rows]
    return Page(found[:page_size], found[page_size - 1].name if len(found) > page_size else None)


async def list_versions(
    tx: Transaction, dataset: str, *, before: int = NUMBER_MAX, page_size: int
) -> Page[VersionRow, int]:
    """List the versions of a dataset, the newest first. Raises NotFound."""
    await get_dataset(tx, dataset)
    rows = await tx.fetch(
        _DATASETS["list_versions"], dataset=dataset, before=before, count_max=page_size + 1
    )
    found = [VersionRow(*row) for row in rows]
    return Page(found[:page_size], found[page_size - 1].version if len(found) > page_size else None)


async def get_version(tx: Transaction, dataset: str, version: int | None) -> VersionRow:
    """Read one version, the current one if none is named. Raises NotFound."""
    found = await get_dataset(tx, dataset)
    number = found.current_version if version is None else version
    if number is None:
        raise NotFound("current version of dataset", dataset)
    rows = await tx.fetch(
        _DATASETS["list_versions"], dataset=dataset, before=number + 1, count_max=1
    )
    if not rows or rows[0]["version"] != number:
        raise NotFound(f"dataset {dataset} with a version", number)
    return VersionRow(*rows[0])


async def list_cut_overs(
    tx: Transaction, dataset: str, *, before: int = NUMBER_MAX, page_size: int
) -> Page[CutOverRow, int]:
    """List the cut-overs of a dataset, the latest first. Raises NotFound."""
    await get_dataset(tx, dataset)
    rows = await tx.fetch(
        _DATASETS["list_cut_overs"], dataset=dataset, before=before, count_max=page_size + 1
    )
    found = [CutOverRow(*row) for row in rows]
    return Page(found[:page_size], found[page_size - 1].number if len(found) > page_size else None)


async def list_entries(
    tx: Transaction, dataset: str, version: VersionRow, *, after: str = "", page_size: int
) -> Page[EntryRow, str]:
    """List the entries of a version by key. Raises IllegalMove if it was dropped."""
    _check_readable(dataset, version)
    found = await _read_entries(tx, dataset, version.version, after=after, count_max=page_size + 1)
    return Page(found[:page_size], found[page_size - 1].key if len(found) > page_size else None)


async def compare_versions(
    tx: Transaction,
    dataset: str,
    before: VersionRow,
    *,
    other: VersionRow,
    after: str,
    page_size: int,
) -> Comparison:
    """Compare two versions by key; a short page with a key to go on from is not the last one."""
    _check_readable(dataset, before)
    _check_readable(dataset, other)
    differences: list[Difference] = []
    for _ in range(COMPARED_MAX // STRETCH):
        stretches = [
            await _read_entries(tx, dataset, each.version, after=after, count_max=STRETCH)
            for each in (before, other)
        ]
        found, horizon = compare_stretches(stretches[0], stretches[1], STRETCH)
        differences += found
        if len(differences) > page_size:
            return Comparison(differences[:page_size], differences[page_size - 1].key)
        if horizon is None:
            return Comparison(differences, None)
        after = horizon
    return Comparison(differences, after)


async def list_triggers(tx: Transaction, dataset: str) -> list[TriggerRow]:
    """List the triggers of a dataset by name. Raises NotFound."""
    await get_dataset(tx, dataset)
    rows = await tx.fetch(_DATASETS["list_triggers"], dataset=dataset, count_max=TRIGGERS_MAX)
    return [TriggerRow(*row) for row in rows]


async def _read_entries(
    tx: Transaction, dataset: str, version: int, *, after: str, count_max: int
) -> list[EntryRow]:
    rows = await tx.fetch(
        _DATASETS["list_entries"],
        dataset=dataset,
        version=version,
        after=after,
        count_max=count_max,
    )
    return [EntryRow(*row) for row in rows]


def _check_readable(dataset: str, version: VersionRow) -> None:
    if version.state == "dropped":
        raise IllegalMove(f"version {version.version} of dataset {dataset}", "dropped", "read")
