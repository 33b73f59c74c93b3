"""A job is settled once what it did not do was done since, or is not wanted any more."""

import pytest

from holdfast.rules.reading.settled import Aftermath, Again, find_settled

RAN, DIED, RUNS = (True, True), (True, False), (False, False)


def a_job(
    *replays: tuple[int, tuple[bool, bool]],
    of: int | None = None,
    letters: bool = True,
    is_open: bool = False,
) -> Aftermath:
    """Make what became of a job: the jobs that run it again, and how they do."""
    again = tuple(Again(job_id, *how) for job_id, how in replays)
    return Aftermath(of, letters, is_open, again)


@pytest.mark.parametrize(
    ("jobs", "settled"),
    [
        ({1: a_job((2, RAN))}, {1}),
        ({1: a_job((2, RUNS))}, set()),
        ({1: a_job((2, DIED))}, set()),
        ({1: a_job(is_open=True)}, set()),
        ({1: a_job((2, RAN), is_open=True)}, set()),
        # All letters discarded; of a job without letters, nothing was done at all.
        ({1: a_job()}, {1}),
        ({1: a_job(letters=False)}, set()),
        # One letter after the other.
        ({1: a_job((2, RAN), (3, RAN))}, {1}),
        ({1: a_job((2, RUNS), (3, RAN))}, set()),
        # The replay died, and its letters were replayed in turn.
        ({1: a_job((2, DIED)), 2: a_job((3, RAN), of=1)}, {1, 2}),
        ({1: a_job((2, DIED)), 2: a_job(of=1, is_open=True)}, set()),
        # Run again twice: the first time was too early.
        ({1: a_job((2, DIED), (3, RAN), letters=False), 2: a_job(of=1, letters=False)}, {1, 2}),
        ({1: a_job((2, RAN), (3, DIED), letters=False), 3: a_job(of=1, letters=False)}, set()),
    ],
)
def test_a_job_is_settled_if_nothing_is_left_to_be_done(
    jobs: dict[int, Aftermath], settled: set[int]
) -> None:
    assert find_settled(jobs) == settled
