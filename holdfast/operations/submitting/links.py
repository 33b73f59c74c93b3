"""The jobs that new jobs refer to: their parents, and those they depend on.

They are held while the new jobs are stored, so an end falls before or after it, never between.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.errors import IllegalMove, NotFound, Refused
from holdfast.model.work.states import LIVE_STATES, JobState
from holdfast.operations.ending.dependents import cancel_unmeetable
from holdfast.operations.submitting.admit import Admitted
from holdfast.rules.dependencies import DependencyCheck, check_dependencies
from holdfast.rules.submitting.order import dependencies_of
from holdfast.store.database import Transaction
from holdfast.store.tables.order import dependencies
from holdfast.store.tables.order.dependencies import NewDependency
from holdfast.store.tables.work.jobs import HeldJob, hold_jobs


class Links(NamedTuple):
    """By job: which are refused because of the jobs they refer to, and how others depend on them.

    Jobs without a dependency are in neither.
    """

    refused: dict[int, Refused]
    checks: dict[int, DependencyCheck]

    def unmet(self, job_id: int) -> int:
        """Count the dependencies of a job that have not been met."""
        check = self.checks.get(job_id)
        return 0 if check is None else check.unmet


async def hold_links(tx: Transaction, jobs: Sequence[Admitted]) -> Links:
    """Hold the jobs that new ones refer to, and check whether they can be referred to."""
    dependents = [job for job in jobs if job.spec.depends_on]
    wanted = {job.submission.parent_job_id for job in jobs if job.submission.parent_job_id}
    for job in dependents:
        wanted |= {int(d.job) for d in dependencies_of(job.spec)} - job.siblings
    if not wanted and not dependents:
        return Links({}, {})
    found = await hold_jobs(tx, wanted)
    refused = _find_orphans(jobs, found)
    checks: dict[int, DependencyCheck] = {}
    ends = {job_id: (held.state, held.ended) for job_id, held in found.items()}
    for job in dependents:
        try:
            checks[job.job_id] = check_dependencies(dependencies_of(job.spec), ends, job.siblings)
        except Refused as error:
            refused.setdefault(job.job_id, error)
    return Links(refused, checks)


def _find_orphans(jobs: Sequence[Admitted], found: Mapping[int, HeldJob]) -> dict[int, Refused]:
    """Say which children cannot have their parents."""
    orphans: dict[int, Refused] = {}
    for job in jobs:
        parent = job.submission.parent_job_id
        if parent is None:
            continue
        held = found.get(parent)
        if held is None:
            orphans[job.job_id] = NotFound("job", parent)
        elif held.is_over:
            name = "cancelled" if held.state in LIVE_STATES else JobState(held.state).name
            orphans[job.job_id] = IllegalMove(f"job {parent}", name, "submit a child of")
    return orphans


async def insert_dependencies(tx: Transaction, checks: Mapping[int, DependencyCheck]) -> None:
    """Store what new jobs depend on; those that can never start are cancelled at once."""
    rows = [
        NewDependency(job_id, *dependency)
        for job_id, check in sorted(checks.items())
        for dependency in check.dependencies
    ]
    if rows:
        await dependencies.insert_dependencies(tx, rows)
        await cancel_unmeetable(
            tx, {job_id: check.cause for job_id, check in checks.items() if check.cause is not None}
        )
