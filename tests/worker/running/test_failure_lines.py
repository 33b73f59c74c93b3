"""The line that a worker logs when an attempt fails."""

import logging
from contextvars import ContextVar

import pytest

from holdfast.errors import RetryAfter
from holdfast.worker.running.attempt_outcome import KILLED, Outcome, failure
from holdfast.worker.running.failure_lines import (
    LINE_LENGTH_MAX,
    describe_failure,
    log,
    log_failure,
)
from tests.worker.claims import an_attempt


def test_the_line_names_task_type_attempt_class_and_the_first_line_of_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempt = an_attempt(type="load")
    log_failure(attempt, failure(ValueError("no such row\nin table a")))
    [record] = caplog.records
    task_id, number = attempt.key
    said = f"task {task_id} (load) attempt {number} failed: ValueError: no such row"
    assert (record.getMessage(), record.levelno) == (said, logging.WARNING)
    assert record.__dict__["task_id"] == task_id


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (Outcome("failed", 3, "exit code 3", "TransientError"), "TransientError: exit code 3"),
        (Outcome("failed", 3), "failed: exit code 3"),
        (Outcome("failed", None, "bad", "PermanentError"), "PermanentError: bad (not retried)"),
        (Outcome("worker_failed", error="no disk"), "could not be run here: no disk"),
        (
            Outcome("worker_failed", error="no disk", error_class="PermanentError"),
            "could not be run here: PermanentError: no disk",
        ),
        (Outcome("failed", None, "x" * 9999), "…"),
    ],
)
def test_a_line_ends_with_the_reason(outcome: Outcome, end: str) -> None:
    line = describe_failure(an_attempt(), outcome)
    assert line.endswith(end)
    assert len(line) < LINE_LENGTH_MAX + 100
    assert "\n" not in line


def test_what_could_not_be_run_is_logged_too_and_not_as_if_the_attempt_had_written_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = ContextVar("here", default="the worker")
    here.set("the attempt")
    writers = []

    def note(record: logging.LogRecord) -> bool:
        writers.append(here.get())
        return True

    log.addFilter(note)
    try:
        log_failure(an_attempt(), Outcome("worker_failed", error="no disk"))
    finally:
        log.removeFilter(note)
    assert (len(caplog.records), writers) == (1, ["the worker"])


def test_other_ends_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for outcome in (
        Outcome("succeeded"),
        KILLED,
        Outcome("handed_back"),
        failure(RetryAfter(5)),
    ):
        log_failure(an_attempt(), outcome)
    assert caplog.records == []
