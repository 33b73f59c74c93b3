"""How dead letters are divided among new jobs: all of them once, the canaries first."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid
from holdfast.model.work.ids import TaskId
from holdfast.rules.replay import Letters, Part, arrange, keep_pace

LINKS_MAX = 100


def letters(job_id: int, count: int, *, can_split: bool = True) -> Letters:
    return Letters(job_id, tuple(TaskId(job_id, index) for index in range(count)), can_split)


def ids(job_id: int, *indexes: int) -> tuple[TaskId, ...]:
    return tuple(TaskId(job_id, index) for index in indexes)


def test_without_a_canary_each_job_is_replayed_as_one() -> None:
    found = arrange([letters(1, 2), letters(2, 1)], links_max=LINKS_MAX)
    assert found == [Part(1, ids(1, 0, 1)), Part(2, ids(2, 0))]


def test_the_first_go_first_and_a_job_is_divided() -> None:
    found = arrange([letters(1, 1), letters(2, 3), letters(3, 1)], canary=2, links_max=LINKS_MAX)
    assert found == [
        Part(1, ids(1, 0), is_canary=True),
        Part(2, ids(2, 0), is_canary=True),
        Part(2, ids(2, 1, 2)),
        Part(3, ids(3, 0)),
    ]


def test_replicas_are_not_divided() -> None:
    found = arrange([letters(1, 3, can_split=False), letters(2, 1)], canary=1, links_max=LINKS_MAX)
    assert found == [Part(1, ids(1, 0, 1, 2), is_canary=True), Part(2, ids(2, 0))]
    with pytest.raises(Invalid, match="canary: takes all of them, because replicas"):
        arrange([letters(1, 3, can_split=False)], canary=1, links_max=LINKS_MAX)


@pytest.mark.parametrize(
    ("canary", "count", "says"),
    [
        (0, 5, "is 0 of 5; use 1 to 4"),
        (-1, 5, "use 1 to 4"),
        (5, 5, "is 5 of 5; use 1 to 4, so that there is a rest"),
        (1, 1, "needs a rest"),
    ],
)
def test_a_canary_leaves_a_rest(canary: int, count: int, says: str) -> None:
    with pytest.raises(Invalid, match=says) as refused:
        arrange([letters(1, count)], canary=canary, links_max=LINKS_MAX)
    assert refused.value.field == "canary"


def test_links_between_jobs_are_bounded() -> None:
    jobs = [letters(job_id, 1) for job_id in range(1, 22)]
    assert len(arrange(jobs, canary=7, links_max=98)) == 21
    with pytest.raises(Invalid, match="canary: makes each of 14 jobs wait for 7 others"):
        arrange(jobs, canary=7, links_max=97)


def test_a_pace_is_shared_by_all_jobs_and_begins_anew_after_the_canaries() -> None:
    groups = [letters(1, 4), letters(2, 1), letters(3, 3, can_split=False), letters(4, 2)]
    parts = arrange(groups, canary=2, links_max=LINKS_MAX)
    paced = keep_pace(parts, groups, 2.0)
    assert [(part.job_id, part.is_canary, part.start_delay, part.start_rate) for part in paced] == [
        (1, True, 0.0, 2.0),
        (1, False, 0.0, 2.0),
        (2, False, 1.0, None),
        (3, False, 1.5, None),
        (4, False, 3.0, 2.0),
    ]


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (0.0, "use one per day to 10000"),
        (-1.0, "use one per day"),
        (float("nan"), "use one per day"),
        (10_001.0, "use one per day"),
        (1 / 86_400, "would take longer than 366 days; use more"),
    ],
)
def test_a_pace_is_bounded(rate: float, says: str) -> None:
    groups = [letters(job_id, 1) for job_id in range(1, 402)]
    with pytest.raises(Invalid, match=says) as refused:
        keep_pace(arrange(groups, links_max=LINKS_MAX), groups, rate)
    assert refused.value.field == "rate"


@given(
    some.lists(some.tuples(some.integers(1, 4), some.booleans()), min_size=1, max_size=6),
    some.none() | some.integers(1, 10),
)
def test_each_letter_is_replayed_once(groups: list[tuple[int, bool]], canary: int | None) -> None:
    given_letters = [
        letters(job_id, count, can_split=can_split)
        for job_id, (count, can_split) in enumerate(groups, 1)
    ]
    try:
        found = arrange(given_letters, canary=canary, links_max=LINKS_MAX)
    except Invalid:
        assert canary is not None, "without a canary nothing is refused"
        return
    replayed = [task_id for part in found for task_id in part.task_ids]
    assert sorted(replayed) == sorted(each for group in given_letters for each in group.task_ids)
    assert [part.is_canary for part in found] == sorted(
        (part.is_canary for part in found), reverse=True
    )
    if canary is not None:
        first = sum(len(part.task_ids) for part in found if part.is_canary)
        assert canary <= first < len(replayed)
