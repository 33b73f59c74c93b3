"""Every error says what was asked, what stands in the way and what to do."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import errors
from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    Invalid,
    KeyReused,
    LeaseConflict,
    NotFound,
    Overloaded,
    Refused,
    RetryAfter,
    SchemaMismatch,
    Stopping,
    TooLarge,
    Unavailable,
)
from holdfast.model.work.ids import TaskId

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, HoldfastError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_stands_in_the_tree_that_the_docstring_draws(cls: type) -> None:
    lines = (errors.__doc__ or "").splitlines()
    [line] = [line for line in lines if cls.__name__ in line.replace("─", " ").split()]
    depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
    assert depth == len(cls.__mro__) - len(HoldfastError.__mro__)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_of_a_request_is_refused_or_unavailable_and_never_both(cls: type) -> None:
    if cls is not HoldfastError and not issubclass(cls, errors.TaskError | errors.TaskFailed):
        assert issubclass(cls, Refused) != issubclass(cls, Unavailable)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Invalid("lease", "is out of range"), "lease: is out of range"),
        (TooLarge("spec", 12, 10), "spec: 12 bytes is over the limit of 10 bytes"),
        (
            TooLarge("inputs", 3, 2, unit="inputs"),
            "inputs: 3 inputs is over the limit of 2 inputs",
        ),
        (NotFound("job", 7), "there is no job 7"),
        (NotFound("task", TaskId(7, 1)), "there is no task 7.1"),
        (
            IllegalMove(TaskId(7, 1), "SUCCEEDED", "dead-letter"),
            "cannot dead-letter 7.1: it is SUCCEEDED",
        ),
        (LeaseConflict(TaskId(7, 1), "finished"), "task 7.1: finished"),
        (
            KeyReused("k", 7),
            "idempotency_key: 'k' was used for job 7 with a different spec; "
            "use a new key, or submit the same spec",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_builds_its_own_text(error: HoldfastError, text: str) -> None:
    assert str(error) == text


def test_errors_carry_their_parts() -> None:
    too_large = TooLarge("spec", 12, 10)
    assert (too_large.field, too_large.size, too_large.limit) == ("spec", 12, 10)
    not_found = NotFound("task", TaskId(7, 1))
    assert (not_found.kind, not_found.name) == ("task", "7.1")
    illegal = IllegalMove(TaskId(7, 1), "KILLED", "start")
    assert (illegal.subject, illegal.state) == ("7.1", "KILLED")
    conflict = LeaseConflict(TaskId(7, 1), "finished")
    assert (conflict.task_id, conflict.reason) == ("7.1", "finished")
    alone = LeaseConflict("the lease is gone")
    assert (alone.task_id, alone.reason, str(alone)) == (None, "the lease is gone", alone.reason)
    reused = KeyReused("k", 7)
    assert (reused.field, reused.key, reused.job_id) == ("idempotency_key", "k", "7")


@pytest.mark.parametrize("cls", [Overloaded, Stopping, SchemaMismatch])
def test_what_may_go_through_later_is_unavailable(cls: type[HoldfastError]) -> None:
    with pytest.raises(Unavailable, match="try later"):
        raise cls("try later")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Invalid("spec", "is\n  none"), "spec: is none"),
        (Unavailable("HTTP 502:\r\n<html>\n"), "HTTP 502: <html>"),
        (
            errors.TaskFailed("1.2", "FAILED", "\nValueError: no\n  File ..."),
            "task 1.2 is FAILED: ValueError: no",
        ),
        (errors.ValidationError("what a user says\nis as it is"), "what a user says\nis as it is"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_is_one_line_unless_it_is_the_users(error: HoldfastError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    "error",
    [
        TooLarge("inputs", 5, 3),
        NotFound("job", 7),
        KeyReused("k", 3),
        IllegalMove("job 3", "KILLED", "cancel"),
        LeaseConflict("1.2", "gone"),
        errors.TaskFailed("1.2", "FAILED", "boom"),
        Stopping("later"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_between_processes(error: HoldfastError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_time_to_try_again_is_given_in_any_form() -> None:
    assert RetryAfter(90).seconds == RetryAfter(timedelta(seconds=90)).seconds == 90.0
    assert 88 < RetryAfter(datetime.now(UTC) + timedelta(seconds=90)).seconds <= 90
    assert RetryAfter(datetime(2020, 1, 1, tzinfo=UTC)).seconds == 0.0
    again = pickle.loads(pickle.dumps(RetryAfter(5, "closed", free=True)))
    assert (str(again), again.seconds, again.free) == ("closed", 5.0, True)


@pytest.mark.parametrize(
    ("after", "error", "words"),
    [
        (datetime(2030, 1, 1), ValueError, "needs a time zone"),
        (-1, ValueError, "use 0 or more"),
        (float("nan"), ValueError, "use 0 or more"),
        (float("inf"), ValueError, "use 0 or more"),
        ("60", TypeError, "not str"),
        (True, TypeError, "not bool"),
    ],
)
def test_what_is_no_time_is_refused(after: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        RetryAfter(after)
