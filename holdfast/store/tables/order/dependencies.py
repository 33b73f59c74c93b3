"""The table of dependencies: which job waits for which, and whether it holds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.model.submitting.order import Condition
from holdfast.model.submitting.spec import OnFailure
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_ORDER = load_statements("order/dependencies")


class NewDependency(NamedTuple):
    """A job that waits for another; `holds` is None while that one has not ended."""

    job_id: int
    depends_on: int
    condition: Condition
    holds: bool | None
    # Within a chain.
    on_failure: OnFailure | None = None


async def insert_dependencies(tx: Transaction, dependencies: Sequence[NewDependency]) -> None:
    """Store what new jobs wait for."""
    await tx.fetch(
        _ORDER["insert_dependencies"],
        job_ids=[item.job_id for item in dependencies],
        depends_on=[item.depends_on for item in dependencies],
        conditions=[item.condition for item in dependencies],
        holds=[item.holds for item in dependencies],
        on_failures=[item.on_failure for item in dependencies],
    )


class UnmetDependency(NamedTuple):
    """A job, and one that it waits for, or has waited for in vain."""

    job_id: int
    depends_on: int


async def find_unmet_dependencies(tx: Transaction, job_ids: Iterable[int]) -> list[UnmetDependency]:
    """Find what jobs still wait for, or have waited for in vain."""
    rows = await tx.fetch(_ORDER["find_unmet_dependencies"], job_ids=sorted(job_ids))
    return list(map(UnmetDependency._make, rows))


class UnmeetableDependency(NamedTuple):
    """A dependency that can never be met, and the state in which the other job ended."""

    depends_on: int
    condition: Condition
    state: int


class ClosedDependencies(NamedTuple):
    """How many dependencies of a job were closed, how many hold, and the first that never will."""

    job_id: int
    closed: int
    met: int
    unmeetable: UnmeetableDependency | None


async def list_waiting_dependents(
    tx: Transaction, *, except_jobs: Sequence[int] = (), ended_max: int, batch_max: int
) -> list[int]:
    """List jobs that wait for jobs whose ends are to be followed up, for each end once."""
    rows = await tx.fetch(
        _ORDER["list_waiting_dependents"],
        except_jobs=except_jobs,
        ended_max=ended_max,
        batch_max=batch_max,
    )
    return [row[0] for row in rows]


class HandedOn(NamedTuple):
    """A job, and the one that it waits for from now on; if that has ended, it has to be told."""

    job_id: int
    depends_on: int
    has_ended: bool


async def hand_on_chains(
    tx: Transaction, ended_job_ids: Iterable[int], *, lets_pass: bool = False
) -> list[HandedOn]:
    """Have who waits in a chain for a job that never started wait for the one before it.

    Where the chain stands still after such a job, only if that is let pass.
    """
    rows = await tx.fetch(
        _ORDER["hand_on_chains"], ended_job_ids=sorted(ended_job_ids), lets_pass=lets_pass
    )
    return list(map(HandedOn._make, rows))


async def close_dependencies(
    tx: Transaction,
    ended_job_ids: Iterable[int],
    *,
    among: Sequence[int] | None = None,
    batch_max: int,
) -> list[ClosedDependencies]:
    """Note for those who wait for ended jobs, or some of them, how these ended; returns those."""
    rows = await tx.fetch(
        _ORDER["close_dependencies"],
        ended_job_ids=sorted(ended_job_ids),
        among=among,
        batch_max=batch_max,
    )
    return [
        ClosedDependencies(
            job_id, closed, met, None if first[0] is None else UnmeetableDependency._make(first)
        )
        for job_id, closed, met, *first in rows
    ]


async def lock_dependents(tx: Transaction, job_ids: Iterable[int]) -> set[int]:
    """Lock jobs that wait for others, in the order of their ids; returns which of them are live."""
    rows = await tx.fetch(_ORDER["lock_dependents"], job_ids=sorted(job_ids))
    return {job_id for job_id, is_live in rows if is_live}


class ReleasedJob(NamedTuple):
    """A job that waits for nothing any more; `has_time` if it is not to start at once."""

    job_id: int
    num_tasks: int
    has_time: bool


async def count_met(tx: Transaction, met: Mapping[int, int]) -> list[ReleasedJob]:
    """Count what is met for each of these locked jobs; returns those that are released by it."""
    rows = await tx.fetch(_ORDER["count_met"], job_ids=list(met), met=list(met.values()))
    return list(map(ReleasedJob._make, rows))


class AwaitedJob(NamedTuple):
    """A job that others wait for; forgotten if it has ended and nobody is to follow up."""

    job_id: int
    is_forgotten: bool


async def walk_open_dependencies(
    tx: Transaction, *, after: int, batch_max: int
) -> list[AwaitedJob]:
    """Walk through the jobs that others wait for, in the order of ids."""
    rows = await tx.fetch(_ORDER["walk_open_dependencies"], after=after, batch_max=batch_max)
    return list(map(AwaitedJob._make, rows))
