"""What is read and written to resume a graph: what is broken, and which job continues which."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.rules.resume import ResumableJob
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_RESUME = load_statements("order/resume")


async def walk_broken(tx: Transaction, job_ids: Iterable[int], *, count_max: int) -> list[int]:
    """Find what a failure has broken around jobs, these included; no more than asked."""
    rows = await tx.fetch(_RESUME["walk_broken"], job_ids=sorted(job_ids), count_max=count_max)
    return [row[0] for row in rows]


async def list_in_vain(tx: Transaction, job_ids: Iterable[int]) -> list[int]:
    """List those of jobs for which others waited in vain that nobody has run again since."""
    rows = await tx.fetch(_RESUME["list_in_vain"], job_ids=sorted(job_ids))
    return [row[0] for row in rows]


async def read_resumable(tx: Transaction, job_ids: Iterable[int]) -> dict[int, ResumableJob]:
    """Read how jobs stand that may be resumed; those that do not exist are left out."""
    rows = await tx.fetch(_RESUME["read_resumable"], job_ids=sorted(job_ids))
    return {row[0]: ResumableJob(*row) for row in rows}


class KnownReplay(NamedTuple):
    """A job, and one that ran it again, or the first of several."""

    job_id: int
    replay: int


async def list_replays(tx: Transaction, job_ids: Iterable[int]) -> list[KnownReplay]:
    """List who has run jobs again, in the order in which that was asked for."""
    rows = await tx.fetch(_RESUME["list_replays"], job_ids=sorted(job_ids))
    return list(map(KnownReplay._make, rows))


async def lock_open_letters(tx: Transaction, job_ids: Iterable[int]) -> list[TaskId]:
    """Lock the dead letters of jobs that wait for a decision."""
    rows = await tx.fetch(_RESUME["lock_open_letters"], job_ids=sorted(job_ids))
    return [TaskId(row[0], row[1]) for row in rows]


async def lock_streams(tx: Transaction, job_ids: Iterable[int]) -> dict[int, int]:
    """Lock jobs, and read the number of the last event of each."""
    rows = await tx.fetch(_RESUME["lock_streams"], job_ids=sorted(job_ids))
    return {row[0]: row[1] for row in rows}


async def hold_streams(tx: Transaction, job_ids: Iterable[int]) -> dict[int, int]:
    """Keep jobs as they are, and read the number of the last event of each; others may, too."""
    rows = await tx.fetch(_RESUME["hold_streams"], job_ids=sorted(job_ids))
    return {row[0]: row[1] for row in rows}


async def insert_continuations(tx: Transaction, job_ids: Sequence[int]) -> None:
    """Note of new replays which of them run exactly what did not succeed."""
    await tx.fetch(_RESUME["insert_continuations"], job_ids=job_ids)


async def continue_with_fills(
    tx: Transaction, continues: Mapping[int, int], *, new_job_ids: Iterable[int]
) -> list[int]:
    """Note which job continues which together with replays of single dead letters before it.

    Lists those that continue another already, on which others build than these new jobs.
    """
    rows = await tx.fetch(
        _RESUME["continue_with_fills"],
        job_ids=list(continues),
        continues=list(continues.values()),
        new_job_ids=list(new_job_ids),
    )
    return sorted(continues.keys() - {row[0] for row in rows})
