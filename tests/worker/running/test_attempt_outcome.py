"""How attempts ended, in words that a server can keep: results, errors, texts."""

import base64
import math
import sys
from typing import Any

import cloudpickle
import msgspec
import pytest

import holdfast as hf
from holdfast.model.work.outcomes import PutOff
from holdfast.worker.running.attempt_outcome import (
    ERROR_LENGTH_MAX,
    RESULT_BYTES_MAX,
    failure,
    storable,
    success,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("ä", '"ä"'),
        ("x" * (RESULT_BYTES_MAX - 2), f'"{"x" * (RESULT_BYTES_MAX - 2)}"'),
    ],
)
def test_a_result_is_kept_as_json(value: Any, text: str) -> None:
    outcome = success(value, pickled=False)
    assert (outcome.status, outcome.exit_code, outcome.result) == ("succeeded", 0, text)


def test_no_result_is_no_text() -> None:
    assert success(None, pickled=False).result is None


def test_a_pickled_result_can_be_opened() -> None:
    text = success({1, 2}, pickled=True).result
    assert text is not None
    assert cloudpickle.loads(base64.b64decode(msgspec.json.decode(text))) == {1, 2}


class Unpicklable:
    """What raises when somebody looks at it."""

    def __reduce__(self) -> str:
        raise RuntimeError("not me")


@pytest.mark.parametrize(
    ("value", "as_pickle"),
    [
        (math.nan, False),
        (object(), False),
        ("\ud800", False),
        ("ä" * (RESULT_BYTES_MAX // 2), False),  # few enough characters, too many bytes
        (Unpicklable(), True),
    ],
)
def test_a_result_that_cannot_be_kept_is_a_failure_of_the_output(
    value: Any, as_pickle: bool
) -> None:
    outcome = success(value, pickled=as_pickle)
    assert (outcome.status, outcome.error_class, outcome.stage) == (
        "failed", "PermanentError", "output",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x"), "ValueError"),
        (hf.TransientError("x"), "TransientError"),
        (hf.DependencyUnavailable("x"), "DependencyUnavailable"),
        (hf.PermanentError("x"), "PermanentError"),
        (hf.ValidationError("x"), "ValidationError"),
        (type("Mine", (hf.PermanentError,), {})("x"), "PermanentError"),
        (KeyboardInterrupt("x"), "KeyboardInterrupt"),
    ],
)
def test_an_error_is_reported_by_the_class_that_decides_what_follows(
    error: BaseException, kind: str
) -> None:
    outcome = failure(error)
    assert (outcome.status, outcome.error_class, outcome.stage) == ("failed", kind, "exec")


def test_an_error_says_first_what_it_says_and_then_where_it_came_from() -> None:
    try:
        sys.intern(3)  # type: ignore[call-overload]
    except TypeError as error:
        text = failure(error).error
    assert text is not None
    assert text.startswith("TypeError: intern() argument must be str, not int\n\nTraceback")
    assert "sys.intern(3)" in text


class Wordless(Exception):
    """An error that cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [Wordless(), ValueError("x" * 100_000), ValueError("a\0b\ud800c"), ValueError()]
)
def test_any_error_can_be_stored(error: Exception) -> None:
    text = failure(error).error
    assert text is not None
    assert len(text) <= ERROR_LENGTH_MAX
    assert "\0" not in text
    assert text.encode()


def test_a_text_is_made_storable_and_cut() -> None:
    assert storable("plain ä", 100) == "plain ä"
    assert storable("a\0b", 100) == "a\\x00b"
    assert storable("\ud800", 100) == "\\ud800"
    assert len(storable("\0" * 100, 100)) == 100


def test_what_is_put_off_says_for_how_long_and_brings_no_traceback() -> None:
    outcome = failure(hf.RetryAfter(90))
    assert (outcome.status, outcome.error_class) == ("failed", "RetryAfter")
    assert (outcome.error, outcome.put_off) == ("RetryAfter: put off for 90 s", PutOff(90_000))
    free = failure(hf.RetryAfter(0.25, "closed", free=True))
    assert free.error == "RetryAfter: put off for 0.25 s at no cost: closed"
    assert free.put_off == PutOff(250, free=True)
