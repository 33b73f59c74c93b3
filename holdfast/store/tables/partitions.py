"""Partitions of the ledger: ranges of job ids that are made ahead and dropped together."""

from datetime import timedelta
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_EVENTS = load_statements("events")
_ATTEMPTS = load_statements("attempts")
_CLUSTER = load_statements("cluster")
_ORDER = load_statements("order")
_DATASETS = load_statements("datasets")


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


async def drop_partition(tx: Transaction, partition: Partition) -> None:
    """Drop the tables of a partition."""
    await tx.fetch(_EVENTS["drop_partition"], first_job_id=partition.first_job_id)


_UNPARTITIONED = (
    _EVENTS["delete_jobs_of_partition"],
    _EVENTS["delete_dead_letters_of_partition"],
    _EVENTS["delete_ready_of_partition"],
    _ATTEMPTS["delete_logs_of_partition"],
    _CLUSTER["delete_usage_of_partition"],
    _ATTEMPTS["delete_checkpoints_of_partition"],
    _ORDER["delete_dependencies_of_partition"],
    _ORDER["delete_undos_of_partition"],
    _DATASETS["delete_job_outputs_of_partition"],
    _DATASETS["delete_commits_of_partition"],
)


async def delete_rows_of_partition(tx: Transaction, partition: Partition) -> None:
    """Delete what tables without partitions hold of a range of jobs."""
    for statement in _UNPARTITIONED:
        await tx.fetch(statement, **partition._asdict())
