"""How the dependencies of a new job stand: met, open, or never to be met."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.order import Dependency
from holdfast.model.work.states import JobState
from holdfast.rules.dependencies import CheckedDependency, check_dependencies, explain_unmeetable

DONE, LOST, LIVE = (JobState.SUCCEEDED, True), (JobState.KILLED, True), (JobState.RUNNING, False)


def test_a_check_says_what_is_met_open_and_in_vain() -> None:
    wanted = [Dependency("1"), Dependency("2"), Dependency("3", "failed"), Dependency("4")]
    found = check_dependencies(wanted, {1: DONE, 2: LIVE, 3: LOST}, {4})
    assert [dependency.holds for dependency in found.dependencies] == [True, None, True, None]
    assert (found.unmet, found.cause) == (2, None)


def test_a_check_gives_the_first_cause_why_a_job_will_never_start() -> None:
    wanted = [Dependency("1", "failed"), Dependency("2", "ended"), Dependency("3")]
    found = check_dependencies(wanted, {1: DONE, 2: LOST, 3: LOST}, ())
    assert found.dependencies == (
        CheckedDependency(1, "failed", False),
        CheckedDependency(2, "ended", True),
        CheckedDependency(3, "succeeded", False),
    )
    assert found.unmet == 2
    assert found.cause == "job 1 ended SUCCEEDED, and this one needed it to have failed"


def test_a_dependency_needs_a_job_at_the_other_end() -> None:
    with pytest.raises(Invalid, match=r"depends_on\[1\]: there is no job 2"):
        check_dependencies([Dependency("1"), Dependency("2")], {1: LIVE}, ())


def test_what_can_never_be_met_is_explained_by_how_the_other_job_ended() -> None:
    needed = "job 7 ended KILLED, and this one needed it to have succeeded"
    assert explain_unmeetable(7, "succeeded", JobState.KILLED) == needed
