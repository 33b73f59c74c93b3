"""Dependencies of a job: which hold already, which still may, and which never will."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.errors import Invalid
from holdfast.model.submitting.order import Condition, Dependency, holds
from holdfast.model.submitting.spec import OnFailure
from holdfast.model.work.states import JobState


class CheckedDependency(NamedTuple):
    """One dependency; `holds` is None while the other job has not ended."""

    depends_on: int
    condition: Condition
    holds: bool | None
    # Within a chain.
    on_failure: OnFailure | None = None


@dataclass(frozen=True, slots=True)
class DependencyCheck:
    """How the dependencies of one job stand, and why it can never start, if that is known.

    Unmet is what does not hold, whether it still may or not.
    """

    dependencies: tuple[CheckedDependency, ...]
    unmet: int
    cause: str | None


def check_dependencies(
    dependencies: Sequence[Dependency],
    found: Mapping[int, tuple[int, bool]],
    siblings: Collection[int],
) -> DependencyCheck:
    """Compare the dependencies of a job with those jobs: their state, and whether it is final.

    Siblings are stored in the same transaction and not found yet. Raises Invalid for a job that
    does not exist.
    """
    checked: list[CheckedDependency] = []
    cause: str | None = None
    for position, dependency in enumerate(dependencies):
        job_id, condition = int(dependency.job), dependency.condition
        if job_id not in found and job_id not in siblings:
            problem = f"there is no job {job_id}; name one that was submitted before"
            raise Invalid(f"depends_on[{position}]", problem)
        state, ended = found.get(job_id, (JobState.PENDING, False))
        is_met = holds(condition, succeeded=state == JobState.SUCCEEDED) if ended else None
        checked.append(CheckedDependency(job_id, condition, is_met))
        if is_met is False and cause is None:
            cause = explain_unmeetable(job_id, condition, state)
    unmet = sum(not dependency.holds for dependency in checked)
    return DependencyCheck(tuple(checked), unmet, cause)


def explain_unmeetable(
    depends_on: int, condition: Condition, state: int, *, name: str | None = None
) -> str:
    """Say why a dependency on a job that ended in this state can never be met."""
    wanted = "failed" if condition == "failed" else "succeeded"
    job = f"job {depends_on}" if name is None else f"job {depends_on} ({name})"
    return f"{job} ended {JobState(state).name}, and this one needed it to have {wanted}"
