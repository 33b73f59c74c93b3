"""What functions return: kept as JSON has it, and said where that is something else."""

import logging
from typing import Any

import pytest

from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.running.function import find_function
from holdfast.worker.running.returning import describe_return
from tests.client.contexts import build_context


def plain(value: Any):  # type: ignore[no-untyped-def]
    """Say nothing of what comes back."""
    return value


def annotated() -> set[int]:
    """Say what comes back."""
    return {1, 2}


class Ambiguous(dict[str, int]):
    """What cannot be compared, as an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None


def warnings_of(
    caplog: pytest.LogCaptureFixture, function: str, value: Any
) -> tuple[str | None, list[str]]:
    caplog.clear()
    callee = find_function(Entrypoint(function=f"{__name__}:{function}"))
    with caplog.at_level(logging.INFO):
        outcome = describe_return(callee, value, build_context("http://127.0.0.1:1"))
    assert outcome.status == "succeeded"
    return outcome.result, caplog.messages


@pytest.mark.parametrize(
    ("value", "kept", "change"),
    [
        ({1}, "[1]", "{1} would arrive as [1]"),
        (b"abc", '"YWJj"', "b'abc' would arrive as 'YWJj'"),
        ({"a": (1,)}, '{"a":[1]}', "(1,) would arrive as [1]"),
        ({1: 2}, '{"1":2}', "{1: 2} would arrive as {'1': 2}"),
    ],
)
def test_a_result_that_json_changes_is_kept_with_a_warning(
    caplog: pytest.LogCaptureFixture, value: Any, kept: str, change: str
) -> None:
    result, [said] = warnings_of(caplog, "plain", value)
    assert result == kept
    remedy = "annotate what the function returns, or use @task(pickled=True)"
    assert said == f"the result: {change}; {remedy}"


@pytest.mark.parametrize("value", [None, 1, "x", [1, {"a": None}], {"a": [1.5]}])
def test_of_other_results_nothing_is_said(caplog: pytest.LogCaptureFixture, value: Any) -> None:
    assert warnings_of(caplog, "plain", value)[1] == []


def test_what_is_annotated_comes_back_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, "annotated", {1}) == ("[1]", [])


def test_what_cannot_be_compared_is_a_success_like_any(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, "plain", Ambiguous(a=1)) == ('{"a":1}', [])
