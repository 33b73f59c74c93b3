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
from holdfast.model.order import Condition, Dependency, holds
from holdfast.model.states import JobState
from holdfast.operations.cancel import flag_job
from holdfast.operations.ledger import Ledger
from holdfast.operations.settle import add_follow_ups
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_ORDER = load_statements("order")
ENDED_JOBS_MAX = 200
DEPENDENTS_MAX = 2000


class Bond(NamedTuple):
    """One dependency; `holds` is None while the other job has not ended as it has to."""

    depends_on: int
    condition: Condition
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Bonds:
    """What one job waits for, and which of those have ended otherwise than they had to."""

    bonds: tuple[Bond, ...]
    broken: tuple[int, ...]

    @property
    def unmet(self) -> int:
        """Count what has not been met."""
        return sum(bond.holds is None for bond in self.bonds)


def find_bonds(
    dependencies: Sequence[Dependency],
    found: Mapping[int, tuple[int, bool]],
    siblings: Collection[int],
) -> Bonds:
    """Compare what a job waits for with how those jobs stand: their state, and whether it is final.

    Siblings are stored along with it. Raises Invalid for a job that does not exist.
    """
    bonds: list[Bond] = []
    broken: list[int] = []
    for place, dependency in enumerate(dependencies):
        job_id = int(dependency.job)
        if job_id not in found and job_id not in siblings:
            problem = f"there is no job {job_id}; name one that was submitted before"
            raise Invalid(f"depends_on[{place}]", problem)
        state, ended = found.get(job_id, (JobState.PENDING, False))
        is_met = ended and holds(dependency.condition, succeeded=state == JobState.SUCCEEDED)
        bonds.append(Bond(job_id, dependency.condition, True if is_met else None))
        if ended and not is_met:
            broken.append(job_id)
    return Bonds(tuple(bonds), tuple(broken))


async def insert_bonds(tx: Transaction, bound: Mapping[int, Bonds]) -> None:
    """Store what new jobs wait for; what can no longer come true is left to the next release."""
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
    broken = {job_id for bonds in bound.values() for job_id in bonds.broken}
    await add_follow_ups(tx, [("release", job_id) for job_id in sorted(broken)])


async def release_dependents(ledger: Ledger, tx: Transaction) -> int:
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
        await _release(ledger, tx, settled)
    if len(settled) < DEPENDENTS_MAX:  # else there may be more of them
        await tx.fetch(_ORDER["delete_releases"], ids=[row[0] for row in rows])
    return len(rows)


async def _release(ledger: Ledger, tx: Transaction, settled: Sequence[Any]) -> None:
    met: Counter[int] = Counter()
    broken: dict[int, str] = {}
    for job_id, depends_on, condition, state, is_met in settled:
        if is_met:
            met[job_id] += 1
        else:
            wanted = "failed" if condition == "failed" else "succeeded"
            name = JobState(state).name
            cause = f"job {depends_on} ended {name}, and this one needed it to have {wanted}"
            broken.setdefault(job_id, cause)
    # All rows at once and in order: each is written to below.
    rows = await tx.fetch(_ORDER["lock_dependents"], job_ids=sorted({*met, *broken}))
    live = {row[0] for row in rows if row[1]}
    freed = await tx.fetch(
        _ORDER["count_met"], job_ids=sorted(met), met=[met[job_id] for job_id in sorted(met)]
    )
    for job_id in sorted(broken.keys() & live):
        await flag_job(ledger, tx, job_id, mode="hard", actor="server", reason=broken[job_id])
    free = [job_id for job_id, unmet in freed if not unmet and job_id in live - broken.keys()]
    await add_follow_ups(tx, [("feed", job_id) for job_id in sorted(free)])


async def find_forgotten(ledger: Ledger, after: int, *, batch_max: int) -> int | None:
    """Look through open dependencies for jobs that have ended and were not followed up.

    There should be none, ever. Returns where to go on, or None at the end.
    """
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_ORDER["walk_open_dependencies"], after=after, batch_max=batch_max)
        await add_follow_ups(tx, [("release", row[0]) for row in rows if row[1]])
    return rows[-1][0] if len(rows) == batch_max else None
