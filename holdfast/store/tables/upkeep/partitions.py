"""Partitions of the ledger: ranges of job ids that are made ahead and dropped together."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_EVENTS = load_statements("output/events")
_ATTEMPTS = load_statements("work/attempts")
_CLUSTER = load_statements("workers/cluster")
_ORDER = load_statements("order/dependencies")
_DATASETS = load_statements("datasets/datasets")
_SIGNALS = load_statements("work/signals")


class Partition(NamedTuple):
    """A range of job ids."""

    first_job_id: int
    end_job_id: int


async def lock_partitions(tx: Transaction) -> None:
    """Let one maker of partitions at a time go on."""
    await tx.fetch(_EVENTS["lock_partitions"])


async def shorten_lock_timeout(tx: Transaction, milliseconds: int) -> None:
    """Give up sooner than usual if the locks of this transaction cannot be had."""
    await tx.fetch(_EVENTS["shorten_lock_timeout"], milliseconds=str(milliseconds))


async def read_partitions(tx: Transaction) -> list[Partition]:
    """Read all partitions, in the order of ids."""
    return list(map(Partition._make, await tx.fetch(_EVENTS["read_partitions"])))


async def add_partition(tx: Transaction, partition: Partition) -> None:
    """Add a partition."""
    await tx.fetch(_EVENTS["add_partition"], **partition._asdict())


async def summarise_events(tx: Transaction) -> int:
    """Let the newest events be found by index; returns how many ranges of pages were added."""
    row = await tx.fetch_one(_EVENTS["summarise_events"])
    assert row is not None, "a function has a row"
    count: int = row[0]
    return count


class JobIdPace(NamedTuple):
    """How far ids have been given out, and how many jobs the last day has brought."""

    last_job_id: int
    jobs_last_day: int


async def read_job_id_pace(tx: Transaction, span_max: int) -> JobIdPace:
    """Read how fast ids are given out."""
    row = await tx.fetch_one(_EVENTS["read_job_id_pace"], span_max=span_max)
    assert row is not None, "a sequence has a row"
    return JobIdPace._make(row)


async def find_prunable_partition(tx: Transaction, *, older_than: timedelta) -> Partition | None:
    """Find the oldest partition whose jobs have all been over for long."""
    row = await tx.fetch_one(_EVENTS["list_prunable_partitions"], older_than=older_than)
    return None if row is None else Partition._make(row)


async def retire_partition(tx: Transaction, partition: Partition) -> None:
    """Note that the jobs of a partition are about to be deleted: from now on they may be."""
    await tx.fetch(_EVENTS["retire_partition"], first_job_id=partition.first_job_id)


async def list_retired_partitions(tx: Transaction) -> list[Partition]:
    """List the partitions whose jobs are being deleted."""
    return list(map(Partition._make, await tx.fetch(_EVENTS["list_retired_partitions"])))


async def lock_retired_partition(tx: Transaction, partition: Partition) -> bool:
    """Lock a partition whose jobs are being deleted; False if it is gone or another server's."""
    first_job_id = partition.first_job_id
    return bool(await tx.fetch(_EVENTS["lock_retired_partition"], first_job_id=first_job_id))


async def lock_jobs_of_partition(
    tx: Transaction, partition: Partition, *, batch_max: int
) -> list[int]:
    """Lock the first jobs of a partition; those that somebody holds are left out."""
    rows = await tx.fetch(
        _EVENTS["lock_jobs_of_partition"], **partition._asdict(), batch_max=batch_max
    )
    return [row[0] for row in rows]


async def list_jobs_in_use(tx: Transaction, job_ids: Sequence[int]) -> set[int]:
    """List those of these jobs that others depend on which have not ended."""
    return {row[0] for row in await tx.fetch(_EVENTS["list_jobs_in_use"], job_ids=job_ids)}


async def delete_jobs(tx: Transaction, job_ids: Sequence[int]) -> None:
    """Delete the rows of jobs of which nothing else is left but what goes with the partition."""
    await tx.fetch(_EVENTS["delete_jobs"], job_ids=job_ids)


async def has_jobs_of_partition(tx: Transaction, partition: Partition) -> bool:
    """Tell whether jobs of a partition are left."""
    return bool(await tx.fetch(_EVENTS["has_jobs_of_partition"], **partition._asdict()))


async def drop_partition(tx: Transaction, partition: Partition) -> None:
    """Drop the tables of a partition; nobody else can use any partition until the commit."""
    await tx.fetch(_EVENTS["drop_partition"], first_job_id=partition.first_job_id)


_UNPARTITIONED = (
    _EVENTS["delete_dead_letters_of_jobs"],
    _CLUSTER["delete_usage_of_jobs"],
    _ORDER["delete_dependencies_of_jobs"],
    _ORDER["delete_undos_of_jobs"],
    _ORDER["delete_continuations_of_jobs"],
    _DATASETS["delete_job_outputs_of_jobs"],
    _DATASETS["delete_commits_of_jobs"],
    _SIGNALS["delete_signal_waits_of_jobs"],
)
# Rows of these may be as large as 1 MiB.
_UNPARTITIONED_LARGE = (
    _ATTEMPTS["delete_logs_of_jobs"],
    _ATTEMPTS["delete_checkpoints_of_jobs"],
    _SIGNALS["delete_signals_of_jobs"],
)


async def delete_rows_of_jobs(
    tx: Transaction, job_ids: Sequence[int], *, rows_max: int, large_rows_max: int
) -> bool:
    """Delete what tables without partitions hold of jobs, of each no more than so many rows.

    Says whether that was all.
    """
    is_all = True
    for statements, count_max in (
        (_UNPARTITIONED, rows_max),
        (_UNPARTITIONED_LARGE, large_rows_max),
    ):
        for statement in statements:
            row = await tx.fetch_one(statement, job_ids=job_ids, rows_max=count_max)
            is_all = is_all and row is not None and row[0] < count_max
    return is_all


async def delete_ready_of_partition(
    tx: Transaction, partition: Partition, *, rows_max: int
) -> bool:
    """Delete ready rows that jobs of a partition have left behind; says whether that was all."""
    row = await tx.fetch_one(
        _EVENTS["delete_ready_of_partition"], **partition._asdict(), rows_max=rows_max
    )
    return row is not None and row[0] < rows_max
