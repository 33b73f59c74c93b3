"""Which jobs of a broken graph run again, who stands in for others, and how they are wired."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import IllegalMove, Invalid
from holdfast.model.submitting.order import Dependency, ResultPosition
from holdfast.model.submitting.spec import Entrypoint, JobSpec
from holdfast.model.work.states import JobState
from holdfast.rules.resume import ResumableJob, ResumePlan, Run, covers, plan_resume, rewire

GOOD, BAD = JobState.SUCCEEDED, JobState.FAILED
LIVE: dict[str, Any] = {"state": JobState.RUNNING, "is_ended": False, "live": 1}


def a_job(job_id: int, state: JobState = BAD, **fields: Any) -> ResumableJob:
    """Describe a job of one input that has ended."""
    known = ResumableJob(
        job_id, state, is_ended=True, is_cancelled=False, live=0, fan_out=True, num_tasks=1,
        succeeded=int(state == GOOD), replay_of=None, continues=None, compensates_job_id=None,
        graph_id=None, seq=3, is_undone=False, is_being_undone=False,
    )  # fmt: skip
    return known._replace(**fields)


def planned(
    *jobs: ResumableJob, broken: list[int], replays: dict[int, list[int]] | None = None
) -> ResumePlan:
    """Plan what runs again when the first job is asked for."""
    known = {job.job_id: job for job in jobs}
    return plan_resume(broken[0], broken, known, replays=replays or {})


CASES: dict[str, tuple[list[ResumableJob], dict[int, list[int]], list[Run], dict[int, int]]] = {
    "alone": ([a_job(1)], {}, [Run(1, 1, True)], {1: 1}),
    "replicas run as a whole": ([a_job(1, fan_out=False)], {}, [Run(1, 1, False)], {1: 1}),
    "undone runs as a whole": ([a_job(1, GOOD, is_undone=True)], {}, [Run(1, 1, False)], {1: 1}),
    "a failed replay runs, not the first": (
        [a_job(1), a_job(5)], {1: [5]}, [Run(5, 1, True)], {1: 5},
    ),
    "the last failed replay runs": (
        [a_job(1), a_job(5), a_job(7), a_job(9)], {1: [5, 9], 5: [7]}, [Run(9, 1, True)], {1: 9},
    ),
    "a part is no replay of the whole": (
        [a_job(1, num_tasks=3), a_job(5, GOOD)], {1: [5]}, [Run(1, 1, True)], {1: 1},
    ),
    "a replay of a part as a whole is none of the whole": (
        [a_job(1, num_tasks=3), a_job(5, continues=1), a_job(6, GOOD)],
        {1: [5], 5: [6]}, [Run(5, 1, True)], {1: 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("jobs", "replays", "runs", "stand_ins"), CASES.values(), ids=CASES)
def test_what_runs_again(
    jobs: list[ResumableJob],
    replays: dict[int, list[int]],
    runs: list[Run],
    stand_ins: dict[int, int],
) -> None:
    assert planned(*jobs, broken=[1], replays=replays) == ResumePlan(runs, stand_ins)


@pytest.mark.parametrize(
    "replay",
    [a_job(5, GOOD), a_job(5, **LIVE), a_job(5, GOOD, continues=1, num_tasks=2)],
    ids=["succeeded", "live", "continues"],
)
def test_a_replay_that_has_succeeded_or_may_stands_in(replay: ResumableJob) -> None:
    # Also if somebody has tried once more since, and failed.
    plan = planned(a_job(2), a_job(1), replay, a_job(7), broken=[2, 1], replays={1: [5, 7]})
    assert plan == ResumePlan([Run(2, 2, True)], {1: 5, 2: 2})


def test_a_job_and_its_replay_are_run_again_once_with_the_order_of_the_first() -> None:
    plan = planned(a_job(5), a_job(1), broken=[5, 1], replays={1: [5]})
    assert plan == ResumePlan([Run(5, 1, True)], {1: 5, 5: 5})


@pytest.mark.parametrize(
    ("job", "replays", "error", "words"),
    [
        (a_job(1, GOOD), {}, IllegalMove, "it is SUCCEEDED, and nothing that waits for it"),
        (a_job(1, **LIVE), {}, IllegalMove, "it is RUNNING, and nothing"),
        (a_job(1), {1: [5]}, IllegalMove, "run again by job 5 already, which is SUCCEEDED"),
        (a_job(1, live=1), {}, IllegalMove, "job 1: it is still stopping"),
        (a_job(1, is_cancelled=True, **LIVE), {}, IllegalMove, "still stopping"),
        (a_job(1, is_undone=True, is_being_undone=True), {}, IllegalMove, "being undone"),
        (a_job(1, compensates_job_id=9), {}, Invalid, "undoes job 9"),
    ],
)
def test_what_cannot_be_resumed_says_why(
    job: ResumableJob, replays: dict[int, list[int]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        planned(job, a_job(5, GOOD), broken=[1], replays=replays)


@given(
    states=some.lists(some.sampled_from([GOOD, BAD]), min_size=2, max_size=8),
    links=some.lists(some.tuples(some.integers(0, 7), some.integers(0, 7)), max_size=12),
)
def test_nothing_that_stands_runs_again_and_everything_broken_is_seen_to(
    states: list[JobState], links: list[tuple[int, int]]
) -> None:
    jobs = {n: a_job(n, state) for n, state in enumerate(states)}
    replays: dict[int, list[int]] = {}
    for old, new in sorted(links, key=lambda link: link[1]):
        if old < new < len(jobs):
            replays.setdefault(old, []).append(new)
    broken = [n for n, job in jobs.items() if not job.stands]
    try:
        plan = plan_resume(0, [0, *broken], jobs, replays=replays)
    except IllegalMove:
        plan = ResumePlan([], {})
    assert all(not jobs[run.job_id].stands for run in plan.runs)
    assert len({run.job_id for run in plan.runs}) == len(plan.runs)
    run = {each.job_id for each in plan.runs}
    assert all(last in run or jobs[last].stands for last in plan.stand_ins.values())
    assert plan.stand_ins.keys() >= set(broken) or not run


def test_only_a_whole_replay_covers_a_job() -> None:
    assert covers(a_job(5, num_tasks=1, continues=1), a_job(1, num_tasks=3))
    assert not covers(a_job(5, num_tasks=1), a_job(1, num_tasks=3))
    assert not covers(a_job(6, num_tasks=2), a_job(5, num_tasks=2, continues=1))


def test_a_job_waits_for_what_runs_again_and_not_for_what_was_met() -> None:
    spec = JobSpec(
        Entrypoint(
            function="app:f",
            args=[None, None],
            results=[ResultPosition(["args", 0], "1"), ResultPosition(["args", 1], "2")],
        ),
        depends_on=["1", "2", "3", "4", Dependency("5", "failed"), Dependency("6", "ended"), "7"],
    )
    wired = rewire(spec, {1: 11, 3: 11, 5: 15, 6: 16}, {5, 6})
    assert wired.depends_on == ["11", "2", Dependency("5", "failed"), Dependency("6", "ended")]
    assert [result.job for result in wired.entrypoint.results] == ["11", "2"]
    assert msgspec.structs.replace(wired, depends_on=[], entrypoint=spec.entrypoint) == (
        msgspec.structs.replace(spec, depends_on=[])
    )
