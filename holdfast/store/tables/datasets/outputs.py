"""The table of what jobs are bound to write: datasets, versions, and how."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.model.submitting.order import Declared
from holdfast.rules.commits import Target
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.datasets.versions import Version, VersionState

_DATASETS = load_statements("datasets/datasets")


class NewJobOutput(NamedTuple):
    """A version that a new job is bound to, and how that was chosen."""

    job_id: int
    dataset: str
    version: int
    mode: str
    declared: Declared | None


async def insert_job_outputs(tx: Transaction, outputs: Sequence[NewJobOutput]) -> None:
    """Store which versions new jobs are bound to."""
    await tx.fetch(
        _DATASETS["insert_job_outputs"],
        job_ids=[output.job_id for output in outputs],
        datasets=[output.dataset for output in outputs],
        versions=[output.version for output in outputs],
        modes=[output.mode for output in outputs],
        declared=[output.declared for output in outputs],
    )


class DeclaredOutput(NamedTuple):
    """How a job's version of a dataset was chosen, and how that version stands."""

    job_id: int
    dataset: str
    declared: Declared | None
    state: VersionState | None


async def find_declared_outputs(tx: Transaction, job_ids: Sequence[int]) -> list[DeclaredOutput]:
    """Find what jobs were bound to, and how that was chosen."""
    rows = await tx.fetch(_DATASETS["find_declared_outputs"], job_ids=job_ids)
    return list(map(DeclaredOutput._make, rows))


async def find_job_outputs(tx: Transaction, job_ids: Iterable[int]) -> dict[int, dict[str, Target]]:
    """Find what jobs write, by job and dataset."""
    rows = await tx.fetch(_DATASETS["find_job_outputs"], job_ids=sorted(job_ids))
    targets: dict[int, dict[str, Target]] = {}
    for job_id, dataset, version, mode in rows:
        targets.setdefault(job_id, {})[dataset] = Target(version, mode)
    return targets


async def list_writers(tx: Transaction, version: Version, *, count_max: int) -> list[int]:
    """List jobs that are bound to a version and have not ended."""
    rows = await tx.fetch(
        _DATASETS["list_writers"],
        dataset=version.dataset,
        version=version.number,
        count_max=count_max,
    )
    return [row[0] for row in rows]
