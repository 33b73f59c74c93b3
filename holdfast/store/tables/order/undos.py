"""The table of what is to be undone, and what compensations are made of."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.rules.undo import OpenUndo
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.work.tasks import InputsSize

_UNDO = load_statements("order/undo")


class Cause(NamedTuple):
    """A job that ended unsuccessfully."""

    job_id: int
    graph_id: int | None
    is_released: bool
    is_undone_itself: bool


async def read_causes(tx: Transaction, job_ids: Iterable[int]) -> dict[int, Cause]:
    """Read how jobs stand that ended unsuccessfully."""
    rows = await tx.fetch(_UNDO["read_causes"], job_ids=sorted(job_ids))
    return {row[0]: Cause._make(row) for row in rows}


class UsedJob(NamedTuple):
    """A job that one with a bad end depends on, directly or not."""

    cause_job_id: int
    job_id: int
    graph_id: int
    is_live: bool


async def find_used_jobs(tx: Transaction, job_ids: Sequence[int]) -> list[UsedJob]:
    """Find what jobs depend on and has succeeded with a compensation, or may yet."""
    return list(map(UsedJob._make, await tx.fetch(_UNDO["find_used_jobs"], job_ids=job_ids)))


class NewUndo(NamedTuple):
    """A job that is to be undone, its graph, and the job whose end is the reason."""

    job_id: int
    graph_id: int
    cause_job_id: int


async def insert_undos(tx: Transaction, undos: Sequence[NewUndo]) -> set[int]:
    """Note what is to be undone, once per job; returns the graphs of what is new."""
    rows = await tx.fetch(
        _UNDO["insert_undos"],
        job_ids=[undo.job_id for undo in undos],
        graph_ids=[undo.graph_id for undo in undos],
        cause_job_ids=[undo.cause_job_id for undo in undos],
    )
    return {row[0] for row in rows}


async def read_open_undos(tx: Transaction, graph_id: int, *, batch_max: int) -> list[OpenUndo]:
    """Read what is still to be undone in a graph, the next ones first."""
    rows = await tx.fetch(_UNDO["read_open_undos"], graph_id=graph_id, batch_max=batch_max)
    return [OpenUndo(*row) for row in rows]


async def has_unsubmitted_undos(tx: Transaction, graph_id: int) -> bool:
    """Tell whether something in a graph has no compensation yet."""
    return bool(await tx.fetch(_UNDO["has_unsubmitted_undos"], graph_id=graph_id))


async def measure_undone_tasks(tx: Transaction, job_id: int) -> InputsSize:
    """Count the tasks of a job that had started, and the bytes of their inputs."""
    row = await tx.fetch_one(_UNDO["measure_undone_tasks"], job_id=job_id)
    return InputsSize._make(row or (0, 0))


class UndoneTaskRow(NamedTuple):
    """A task that had started; input and result are JSON texts."""

    task_index: int
    state: int
    input: str | None
    result: str | None
    error: str | None


async def read_undone_tasks(
    tx: Transaction, job_id: int, *, after: int, batch_max: int
) -> list[UndoneTaskRow]:
    """Read the tasks of a job that had started, a page at a time."""
    rows = await tx.fetch(
        _UNDO["read_undone_tasks"], job_id=job_id, after=after, batch_max=batch_max
    )
    return list(map(UndoneTaskRow._make, rows))


class UndoneOutput(NamedTuple):
    """An entry that a task has committed, as JSON; `available` counts those of all tasks."""

    task_index: int
    text: str
    available: int


async def read_undone_outputs(
    tx: Transaction, job_id: int, *, batch_max: int, bytes_max: int
) -> list[UndoneOutput]:
    """Read what the tasks of a job have committed, as much as there is room for."""
    rows = await tx.fetch(
        _UNDO["read_undone_outputs"], job_id=job_id, batch_max=batch_max, bytes_max=bytes_max
    )
    return list(map(UndoneOutput._make, rows))


class UndoneJob(NamedTuple):
    """How a job ended that is to be undone."""

    state: int
    error: str | None


async def read_undone_job(tx: Transaction, job_id: int) -> UndoneJob:
    """Read how a job ended."""
    row = await tx.fetch_one(_UNDO["read_undone_job"], job_id=job_id)
    assert row is not None, "a job that is to be undone is there"
    return UndoneJob._make(row)


async def note_compensation(tx: Transaction, job_id: int, *, compensation_job_id: int) -> None:
    """Note the job that undoes this one."""
    await tx.fetch(
        _UNDO["note_compensation"], job_id=job_id, compensation_job_id=compensation_job_id
    )


class CompensationRow(NamedTuple):
    """A compensation of a job, or the replay of one, and whether a dead letter of it is open."""

    job_id: int
    replay_of: int | None
    state: int
    has_open_letters: bool


async def list_compensations(tx: Transaction, job_id: int) -> list[CompensationRow]:
    """List the jobs that undo this one, the first and its replays."""
    rows = await tx.fetch(_UNDO["list_compensations"], job_id=job_id)
    return list(map(CompensationRow._make, rows))


async def read_compensates(tx: Transaction, job_id: int) -> int | None:
    """Read which job a compensation undoes; None if the compensation is gone."""
    row = await tx.fetch_one(_UNDO["read_compensates"], job_id=job_id)
    return None if row is None else row[0]


async def end_undo(
    tx: Transaction, job_id: int, *, compensation_job_id: int, succeeded: bool
) -> int | None:
    """Note how the undoing of a job ended and give its graph; None if success was noted before."""
    row = await tx.fetch_one(
        _UNDO["end_undo"],
        job_id=job_id,
        compensation_job_id=compensation_job_id,
        succeeded=succeeded,
    )
    return None if row is None else row[0]
