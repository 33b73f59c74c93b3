"""An outage is logged when it begins, now and then, and when it is over; not for each failure."""

import logging

import pytest

from holdfast.errors import Unavailable
from holdfast.model.outage import LOG_SECONDS, SETTLE_SECONDS, Outage


class Seconds:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Read it."""
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    """The time."""
    return Seconds()


@pytest.fixture
def outage(seconds: Seconds, caplog: pytest.LogCaptureFixture) -> Outage:
    """What notes that something is away."""
    caplog.set_level("INFO", "holdfast.outage")
    return Outage("the store", clock=seconds)


def fail_for(outage: Outage, seconds: Seconds, length: float) -> None:
    """Fail ten times a second."""
    for _ in range(round(length * 10)):
        outage.note_failure(Unavailable("refused"), "refused")
        seconds.now += 0.1


def test_a_long_one_is_a_few_lines(
    outage: Outage, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    fail_for(outage, seconds, LOG_SECONDS * 2 - 1)
    outage.note_success()
    assert len(caplog.messages) == 2, "it is over while things still fail"
    seconds.now += SETTLE_SECONDS
    outage.note_success()
    outage.note_success()
    assert caplog.messages == [
        "the store is away: refused",
        f"the store is away for {LOG_SECONDS:.0f} s now: refused",
        f"the store is back after {LOG_SECONDS * 2 - 1:.0f} s",
    ]


def test_one_that_comes_and_goes_is_not_logged_each_time(
    outage: Outage, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        fail_for(outage, seconds, 0.1)
        seconds.now += SETTLE_SECONDS
        outage.note_success()
    # It began and was over; and once more half a minute later.
    assert len(caplog.messages) == 4
    seconds.now += LOG_SECONDS
    outage.note_failure(Unavailable("x"), "refused once more")
    assert caplog.messages[-1] == "the store is away: refused once more"


def test_of_two_threads_that_find_it_over_one_says_so(
    outage: Outage, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    fail_for(outage, seconds, 1)
    seconds.now += SETTLE_SECONDS
    others = [outage]

    def let_another_in(_: logging.LogRecord) -> bool:
        if others:  # a line is written for longer than another thread needs
            others.pop().note_success()
        return True

    logger = logging.getLogger("holdfast.outage")
    logger.addFilter(let_another_in)
    try:
        outage.note_success()
    finally:
        logger.removeFilter(let_another_in)
    assert caplog.messages == ["the store is away: refused", "the store is back after 1 s"]


def test_without_one_nothing_is_said(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.note_success()
    assert caplog.messages == []


def test_an_error_of_it_says_that_it_is_logged(outage: Outage) -> None:
    error = Unavailable("refused")
    assert not error.is_logged
    outage.note_failure(error, "refused")
    assert error.is_logged
