"""A bad worker is one that fails what succeeds elsewhere."""

import pytest

from holdfast.rules.reading.worker_failures import BadWorker, fails_nearly_all, find_bad_workers
from holdfast.store.tables.upkeep.samples import WorkerEnds


@pytest.mark.parametrize(
    ("ends", "bad"),
    [
        # One fails all it touches, whoever is to blame for each.
        ({"w1": WorkerEnds(failed=3, worker_failed=2), "w2": WorkerEnds(9, 1)}, ["w1"]),
        ({"w1": WorkerEnds(2, 8), "w2": WorkerEnds(20)}, ["w1"]),
        ({"w1": WorkerEnds(0, 9), "w2": WorkerEnds(0, 9), "w3": WorkerEnds(20)}, ["w1", "w2"]),
        # Too few to tell, here or elsewhere.
        ({"w1": WorkerEnds(0, 4), "w2": WorkerEnds(20)}, []),
        ({"w1": WorkerEnds(0, 20), "w2": WorkerEnds(4)}, []),
        ({"w1": WorkerEnds(0, 20)}, []),
        # It succeeds now and then.
        ({"w1": WorkerEnds(3, 7), "w2": WorkerEnds(20)}, []),
        # The work is what fails.
        ({"w1": WorkerEnds(0, 9), "w2": WorkerEnds(5, 5)}, []),
        # Somebody has stopped it.
        ({"w1": WorkerEnds(killed=20), "w2": WorkerEnds(20)}, []),
    ],
)
def test_a_worker_is_bad_if_it_fails_what_others_do_not(
    ends: dict[str, WorkerEnds], bad: list[str]
) -> None:
    assert [each.worker_id for each in find_bad_workers(ends)] == bad


def test_it_is_said_how_much_failed_there_and_elsewhere() -> None:
    ends = {"w1": WorkerEnds(1, 7, 2), "w2": WorkerEnds(9, 1), "w3": WorkerEnds(9, 1)}
    assert find_bad_workers(ends) == [BadWorker("w1", 9, 10, 0.1)]


@pytest.mark.parametrize(
    ("ends", "is_failing"),
    [
        (WorkerEnds(0, 41), True),
        (WorkerEnds(2, 4, 4), True),
        (WorkerEnds(3, 7), False),
        (WorkerEnds(0, 4), False),
        (WorkerEnds(killed=41), False),
    ],
)
def test_a_worker_is_failing_if_nearly_all_it_touches_fails(
    ends: WorkerEnds, *, is_failing: bool
) -> None:
    assert fails_nearly_all(ends) == is_failing
