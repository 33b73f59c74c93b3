"""Jobs that wait for other jobs: bound when they are stored, released when those have ended.

The end of a job that others wait for leaves a row in the outbox, in the same transaction. A job
that is being stored holds the rows of those it waits for, so an end falls before or after it, never
between.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.model.ids import TaskId
from holdfast.model.order import Condition, Dependency, holds
from holdfast.model.states import JobState
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import id_columns

_JOBS = load_statements("jobs")
_ORDER = load_statements("order")
_READY = load_statements("ready")
ENDED_JOBS_MAX = 1000
DEPENDENTS_MAX = 2000
LINED_UP_MAX = 5000


class Bond(NamedTuple):
    """One dependency; `holds` is None while the other job has not ended."""

    depends_on: int
    condition: Condition
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Bonds:
    """What one job waits for, and why it will never start, if that is known already."""

    bonds: tuple[Bond, ...]
    cause: str | None

    @property
    def unmet(self) -> int:
        """Count what has not been met, whether it still may be or not."""
        return sum(not bond.holds for bond in self.bonds)


def find_bonds(
    dependencies: Sequence[Dependency],
    found: Mapping[int, tuple[int, bool]],
    siblings: Collection[int],
) -> Bonds:
    """Compare what a job waits for with how those jobs stand: their state, and whether it is final.

    Siblings are stored along with it: named by the job, not by an id that they are about to get.
    Raises Invalid for a job that does not exist.
    """
    bonds: list[Bond] = []
    cause: str | None = None
    for place, dependency in enumerate(dependencies):
        job_id, condition = int(dependency.job), dependency.condition
        if job_id not in found and job_id not in siblings:
            problem = f"there is no job {job_id}; name one that was submitted before"
            raise Invalid(f"depends_on[{place}]", problem)
        state, ended = found.get(job_id, (JobState.PENDING, False))
        is_met = holds(condition, succeeded=state == JobState.SUCCEEDED) if ended else None
        bonds.append(Bond(job_id, condition, is_met))
        if is_met is False and cause is None:
            cause = _why_in_vain(job_id, condition, state)
    return Bonds(tuple(bonds), cause)


def _why_in_vain(depends_on: int, condition: Condition, state: int) -> str:
    wanted = "failed" if condition == "failed" else "succeeded"
    name = JobState(state).name
    return f"job {depends_on} ended {name}, and this one needed it to have {wanted}"


async def insert_bonds(tx: Transaction, bound: Mapping[int, Bonds]) -> None:
    """Store what new jobs wait for; those that wait in vain are cancelled as soon as they exist."""
    rows = [(job_id, bond) for job_id, bonds in sorted(bound.items()) for bond in bonds.bonds]
    if not rows:
        return
    await tx.fetch(
        _ORDER["insert_dependencies"],
        job_ids=[job_id for job_id, _ in rows],
        depends_on=[bond.depends_on for _, bond in rows],
        conditions=[bond.condition for _, bond in rows],
        holds=[bond.holds for _, bond in rows],
    )
    await _give_up(tx, {job_id: b.cause for job_id, b in bound.items() if b.cause is not None})


async def release_dependents(_: Ledger, tx: Transaction) -> int:
    """Settle what waited for jobs that have ended: many at a time; returns how many had ended."""
    rows = await tx.fetch(_ORDER["take_releases"], batch_max=ENDED_JOBS_MAX)
    if not rows:
        return 0
    settled = await tx.fetch(
        _ORDER["settle_dependencies"],
        ended_job_ids=sorted({row[1] for row in rows}),
        batch_max=DEPENDENTS_MAX,
    )
    if settled:
        await _release(tx, settled)
    if len(settled) < DEPENDENTS_MAX:  # else there may be more of them
        await tx.fetch(_ORDER["delete_releases"], ids=[row[0] for row in rows])
    return len(rows)


async def _release(tx: Transaction, settled: Sequence[Any]) -> None:
    met: Counter[int] = Counter()
    in_vain: dict[int, str] = {}
    for job_id, depends_on, condition, state, is_met in settled:
        if is_met:
            met[job_id] += 1
        else:
            in_vain.setdefault(job_id, _why_in_vain(depends_on, condition, state))
    # All rows at once and in order: each is written to below.
    rows = await tx.fetch(_ORDER["lock_dependents"], job_ids=sorted({*met, *in_vain}))
    waiting = {row["job_id"]: row for row in rows}
    counted = sorted(met)
    freed = await tx.fetch(
        _ORDER["count_met"], job_ids=counted, met=[met[job_id] for job_id in counted]
    )
    live = {job_id: cause for job_id, cause in in_vain.items() if waiting[job_id]["is_live"]}
    await _give_up(tx, live)
    await _line_up(tx, [waiting[job_id] for job_id, is_released in freed if is_released])


async def _give_up(tx: Transaction, causes: Mapping[int, str]) -> None:
    """Cancel live jobs that will never start; their tasks are left to the sweep."""
    job_ids = sorted(causes)
    if job_ids:
        await tx.fetch(
            _JOBS["flag_cancel"],
            job_ids=job_ids,
            mode="hard",
            reasons=[causes[job_id] for job_id in job_ids],
            actor="server",
        )
        await add_follow_ups(tx, [("sweep", job_id) for job_id in job_ids])


async def _line_up(tx: Transaction, released: Sequence[Any]) -> None:
    """Put the tasks of released jobs in line; large jobs, and those for later, are fed.

    The tasks are not locked: none of them has ever been in line, and the ready row of one that is
    cancelled at this moment is stale like that of any other. A waiting row must not be.
    """
    task_ids: list[TaskId] = []
    fed: list[int] = []
    for job in sorted(released, key=lambda job: job["job_id"]):
        if job["has_time"] or len(task_ids) + job["num_tasks"] > LINED_UP_MAX:
            fed.append(job["job_id"])
        else:
            task_ids += [TaskId(job["job_id"], index) for index in range(job["num_tasks"])]
    await feed_tasks(tx, task_ids)
    await add_follow_ups(tx, [("feed", job_id) for job_id in fed])


async def feed_tasks(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Put tasks in line that have not been there before, and tell who waits for them."""
    if task_ids:
        for row in await tx.fetch(_READY["feed_ready"], **id_columns(task_ids)):
            tx.news.add_ready(row["queue"], TaskId(row["job_id"], row["task_index"]))


async def find_forgotten(ledger: Ledger, after: int, *, batch_max: int) -> int | None:
    """Look through open dependencies for jobs that have ended and were not followed up.

    There should be none, ever. Returns where to go on, or None at the end.
    """
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_ORDER["walk_open_dependencies"], after=after, batch_max=batch_max)
        await add_follow_ups(tx, [("release", row[0]) for row in rows if row[1]])
    return rows[-1][0] if len(rows) == batch_max else None
