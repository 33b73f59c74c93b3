"""A job's state from its counts: each rule, and its priority over the rules that come later."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.model.work.states import TaskState
from holdfast.rules.job_state import JobCounts, job_state

Case = tuple[dict[str, int], str]


def state_of(counts: dict[str, int], **changes: Any) -> str:
    given: dict[str, Any] = {
        "fan_out": False,
        "max_task_failures": 0,
        "cancel": None,
        "has_started": False,
    }
    return job_state(JobCounts(**counts), **given | changes).name


def of_inputs(counts: dict[str, int], **changes: Any) -> str:
    return state_of(counts, **{"fan_out": True, "max_task_failures": None} | changes)


def test_counts_know_what_is_open_live_and_all() -> None:
    counts = JobCounts(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, timed_out=3)
    assert counts.open == 2 + 3 + 4
    assert counts.live == 1 + 2 + 3 + 4
    assert counts.total == sum(range(1, 11))


REPLICAS: list[Case] = [
    # 1. all succeeded
    ({"succeeded": 1}, "SUCCEEDED"),
    ({"succeeded": 3}, "SUCCEEDED"),
    # 2. failures beyond what is tolerated, over every later rule
    ({"failed": 1, "running": 2}, "FAILED"),
    ({"failed": 1, "dead_lettered": 1}, "FAILED"),
    ({"failed": 1, "unschedulable": 1}, "FAILED"),
    ({"failed": 1, "killed": 2}, "FAILED"),
    ({"failed": 1, "worker_failed": 2}, "FAILED"),
    ({"failed": 1, "succeeded": 2}, "FAILED"),
    ({"failed": 1, "pending": 2}, "FAILED"),
    ({"dead_lettered": 1, "running": 2}, "DEAD_LETTERED"),
    ({"dead_lettered": 1, "unschedulable": 1}, "DEAD_LETTERED"),
    ({"dead_lettered": 1, "killed": 1}, "DEAD_LETTERED"),
    ({"dead_lettered": 1, "worker_failed": 1}, "DEAD_LETTERED"),
    # 3. unschedulable, over 4 to 7
    ({"unschedulable": 1, "killed": 1}, "UNSCHEDULABLE"),
    ({"unschedulable": 1, "worker_failed": 1}, "UNSCHEDULABLE"),
    ({"unschedulable": 1, "running": 1}, "UNSCHEDULABLE"),
    ({"unschedulable": 1, "pending": 1}, "UNSCHEDULABLE"),
    # 4. killed, over 5 to 7
    ({"killed": 1, "worker_failed": 1}, "KILLED"),
    ({"killed": 1, "running": 1}, "KILLED"),
    ({"killed": 1, "succeeded": 5}, "KILLED"),
    ({"killed": 1, "pending": 1}, "KILLED"),
    # a timed-out replica is a killed one
    ({"killed": 1, "timed_out": 1, "succeeded": 1}, "KILLED"),
    # 5. all finished
    ({"worker_failed": 1, "succeeded": 1}, "WORKER_FAILED"),
    ({"worker_failed": 2}, "WORKER_FAILED"),
    # 6. something is under way
    ({"assigned": 1}, "RUNNING"),
    ({"building": 1}, "RUNNING"),
    ({"running": 1}, "RUNNING"),
    ({"assigned": 1, "pending": 9}, "RUNNING"),
    ({"running": 1, "worker_failed": 1}, "RUNNING"),
    # 7. nothing yet
    ({"pending": 3}, "PENDING"),
    ({"pending": 2, "worker_failed": 1}, "PENDING"),
]


@pytest.mark.parametrize(("counts", "expected"), REPLICAS, ids=str)
def test_replicas_that_belong_together(counts: dict[str, int], expected: str) -> None:
    assert state_of(counts) == expected


TOLERANT: list[Case] = [
    ({"failed": 2, "running": 1}, "RUNNING"),
    ({"failed": 3, "running": 1}, "FAILED"),
    ({"failed": 2, "dead_lettered": 1, "running": 1}, "DEAD_LETTERED"),
    ({"failed": 1, "dead_lettered": 1, "running": 1}, "RUNNING"),
    ({"dead_lettered": 3, "running": 1}, "DEAD_LETTERED"),
    ({"failed": 3, "dead_lettered": 3}, "FAILED"),
    ({"failed": 2, "succeeded": 1}, "SUCCEEDED"),
    ({"failed": 2}, "SUCCEEDED"),
    ({"dead_lettered": 2, "succeeded": 1}, "SUCCEEDED"),
    ({"failed": 2, "worker_failed": 1}, "WORKER_FAILED"),
    ({"failed": 2, "worker_failed": 9, "running": 1}, "RUNNING"),
    ({"failed": 2, "killed": 1}, "KILLED"),
    ({"failed": 2, "unschedulable": 1}, "UNSCHEDULABLE"),
]


@pytest.mark.parametrize(("counts", "expected"), TOLERANT, ids=str)
def test_replicas_with_two_failures_tolerated(counts: dict[str, int], expected: str) -> None:
    assert state_of(counts, max_task_failures=2) == expected


INPUTS: list[Case] = [
    ({"succeeded": 4}, "SUCCEEDED"),
    # nothing stops the others
    ({"failed": 3, "running": 1}, "RUNNING"),
    ({"dead_lettered": 3, "running": 1}, "RUNNING"),
    ({"unschedulable": 1, "running": 1}, "RUNNING"),
    ({"killed": 1, "assigned": 1}, "RUNNING"),
    ({"killed": 1, "pending": 1}, "PENDING"),
    # then the truth is told
    ({"failed": 1, "succeeded": 99}, "FAILED"),
    ({"failed": 1, "dead_lettered": 5}, "FAILED"),
    ({"dead_lettered": 1, "succeeded": 99}, "DEAD_LETTERED"),
    ({"dead_lettered": 1, "unschedulable": 1}, "DEAD_LETTERED"),
    ({"unschedulable": 1, "succeeded": 1, "killed": 1}, "UNSCHEDULABLE"),
    ({"unschedulable": 1, "worker_failed": 1}, "UNSCHEDULABLE"),
    # a cancelled task just counts as finished, unless nothing succeeded
    ({"killed": 1, "succeeded": 1}, "SUCCEEDED"),
    ({"killed": 2}, "KILLED"),
    ({"killed": 1, "worker_failed": 1}, "KILLED"),
    ({"killed": 1, "worker_failed": 1, "succeeded": 1}, "WORKER_FAILED"),
    ({"killed": 1, "failed": 1}, "FAILED"),
    # one killed by its timeout counts as failed
    ({"killed": 1, "timed_out": 1, "succeeded": 1}, "FAILED"),
    ({"killed": 2, "timed_out": 1, "succeeded": 1}, "FAILED"),
    ({"killed": 1, "timed_out": 1, "running": 1}, "RUNNING"),
    ({"worker_failed": 1, "succeeded": 1}, "WORKER_FAILED"),
]


@pytest.mark.parametrize(("counts", "expected"), INPUTS, ids=str)
def test_inputs_without_a_bound_run_everything_and_then_tell_the_truth(
    counts: dict[str, int], expected: str
) -> None:
    assert of_inputs(counts) == expected


BOUNDED_INPUTS: list[Case] = [
    ({"failed": 2, "running": 1}, "FAILED"),
    ({"failed": 1, "running": 1}, "RUNNING"),
    ({"failed": 1, "succeeded": 1}, "SUCCEEDED"),
    ({"killed": 2, "timed_out": 2, "running": 1}, "FAILED"),
    ({"failed": 1, "killed": 1, "timed_out": 1, "running": 1}, "FAILED"),
    ({"killed": 1, "timed_out": 1, "running": 1}, "RUNNING"),
    ({"killed": 1, "timed_out": 1, "dead_lettered": 1, "running": 1}, "DEAD_LETTERED"),
    ({"killed": 1, "timed_out": 1, "succeeded": 1}, "SUCCEEDED"),
    ({"killed": 1, "timed_out": 1}, "KILLED"),
    ({"killed": 1, "running": 1}, "RUNNING"),
    ({"unschedulable": 1, "running": 1}, "UNSCHEDULABLE"),
]


@pytest.mark.parametrize(("counts", "expected"), BOUNDED_INPUTS, ids=str)
def test_inputs_with_one_failure_tolerated_stop_beyond_it(
    counts: dict[str, int], expected: str
) -> None:
    assert of_inputs(counts, max_task_failures=1) == expected


def test_zero_tolerance_for_inputs_is_not_the_same_as_none_said() -> None:
    counts = {"failed": 1, "running": 1}
    assert of_inputs(counts, max_task_failures=0) == "FAILED"
    assert of_inputs(counts, max_task_failures=None) == "RUNNING"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"killed": 1, "running": 1}, "RUNNING"),
        ({"killed": 1, "pending": 1}, "PENDING"),
        ({"failed": 1, "running": 1}, "RUNNING"),
        ({"unschedulable": 1, "building": 1}, "RUNNING"),
        ({"killed": 2}, "KILLED"),
        ({"killed": 1, "succeeded": 1}, "KILLED"),
        ({"killed": 1, "failed": 1}, "FAILED"),
        ({"succeeded": 2}, "SUCCEEDED"),
    ],
    ids=str,
)
@pytest.mark.parametrize("fan_out", [False, True], ids=["replicas", "inputs"])
def test_a_soft_cancel_leaves_everyone_their_grace(
    counts: dict[str, int], expected: str, fan_out: bool
) -> None:
    assert state_of(counts, fan_out=fan_out, cancel="soft") == expected


def test_a_hard_cancel_of_replicas_ends_the_job_with_the_first_kill() -> None:
    assert state_of({"killed": 1, "running": 5}, cancel="hard") == "KILLED"
    assert state_of({"pending": 1, "running": 5}, cancel="hard") == "RUNNING"


def test_a_hard_cancel_of_bounded_inputs_ends_the_job_with_the_first_kill() -> None:
    counts = {"killed": 1, "succeeded": 4, "running": 5}
    assert of_inputs(counts, cancel="hard", max_task_failures=3) == "KILLED"


def test_a_hard_cancel_of_unbounded_inputs_ends_the_job_with_its_last_task() -> None:
    assert of_inputs({"killed": 1, "running": 5}, cancel="hard") == "RUNNING"
    assert of_inputs({"killed": 1, "succeeded": 5}, cancel="hard") == "KILLED"


@pytest.mark.parametrize("fan_out", [False, True], ids=["replicas", "inputs"])
def test_a_started_job_stays_running_while_a_task_waits_for_its_retry(fan_out: bool) -> None:
    assert state_of({"pending": 1}, fan_out=fan_out, has_started=True) == "RUNNING"
    assert state_of({"pending": 1}, fan_out=fan_out) == "PENDING"


def test_having_started_does_not_keep_a_job_alive() -> None:
    assert state_of({"succeeded": 1}, has_started=True) == "SUCCEEDED"
    assert state_of({"failed": 1, "pending": 1}, has_started=True) == "FAILED"


# The rules once more, written from the specification without a look at the code.


def expected_state(
    tasks: list[str],
    timed_out: int,
    fan_out: bool,
    bound: int | None,
    cancel: str | None,
    has_started: bool,
) -> str:
    number = tasks.count
    live = {"PENDING", "ASSIGNED", "BUILDING", "RUNNING"}
    all_finished = not live & set(tasks)
    if set(tasks) == {"SUCCEEDED"}:
        return "SUCCEEDED"
    held_back = (fan_out and bound is None) or cancel == "soft"
    if all_finished or not held_back:
        tolerated = 0 if bound is None else bound
        failed = number("FAILED")
        if fan_out:
            failed += timed_out
        if failed > tolerated:
            return "FAILED"
        if failed + number("DEAD_LETTERED") > tolerated:
            return "DEAD_LETTERED"
        if "UNSCHEDULABLE" in tasks:
            return "UNSCHEDULABLE"
        if "KILLED" in tasks:
            if not fan_out or cancel:
                return "KILLED"
            if all_finished and "SUCCEEDED" not in tasks:
                return "KILLED"
    if all_finished:
        return "WORKER_FAILED" if "WORKER_FAILED" in tasks else "SUCCEEDED"
    if has_started or {"ASSIGNED", "BUILDING", "RUNNING"} & set(tasks):
        return "RUNNING"
    return "PENDING"


NAMES = [state.name for state in TaskState]


@given(
    tasks=some.lists(some.sampled_from(NAMES), min_size=1, max_size=6),
    timed_out_share=some.floats(0, 1),
    fan_out=some.booleans(),
    bound=some.none() | some.integers(0, 4),
    cancel=some.sampled_from([None, "soft", "hard"]),
    has_started=some.booleans(),
)
def test_for_any_counts_the_state_is_the_one_the_specification_gives(
    tasks: list[str],
    timed_out_share: float,
    fan_out: bool,
    bound: int | None,
    cancel: Any,
    has_started: bool,
) -> None:
    timed_out = round(timed_out_share * tasks.count("KILLED"))
    counts = {name.lower(): tasks.count(name) for name in NAMES} | {"timed_out": timed_out}
    found = job_state(
        JobCounts(**counts),
        fan_out=fan_out,
        max_task_failures=bound,
        cancel=cancel,
        has_started=has_started,
    )
    assert found.name == expected_state(tasks, timed_out, fan_out, bound, cancel, has_started)
    if found.name not in ("PENDING", "RUNNING"):
        return
    assert {"PENDING", "ASSIGNED", "BUILDING", "RUNNING"} & set(tasks)


@given(
    tasks=some.lists(some.sampled_from(NAMES), min_size=1, max_size=6),
    fan_out=some.booleans(),
    bound=some.none() | some.integers(0, 4),
    cancel=some.sampled_from([None, "soft", "hard"]),
)
def test_a_job_whose_tasks_have_all_finished_is_never_live(
    tasks: list[str], fan_out: bool, bound: int | None, cancel: Any
) -> None:
    finished = [name for name in tasks if TaskState[name] in set(TaskState) - {1, 2, 3, 9}]
    counts = JobCounts(**{name.lower(): finished.count(name) for name in NAMES})
    found = job_state(
        counts, fan_out=fan_out, max_task_failures=bound, cancel=cancel, has_started=True
    )
    assert found.name not in ("PENDING", "RUNNING")
