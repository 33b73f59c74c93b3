"""Outcomes and verdicts are values; their words are the specification's."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from holdfast.model.outcomes import (
    STAGES,
    CancelMode,
    Failed,
    Killed,
    ReasonCode,
    Stage,
    Succeeded,
    TaskFinished,
    WorkerFailed,
)
from holdfast.model.states import TaskState


def test_stages_are_those_of_the_specification() -> None:
    assert STAGES == get_args(Stage) == ("fetch", "input", "exec", "output", "commit")


def test_reason_codes_are_those_of_the_specification() -> None:
    assert set(get_args(ReasonCode)) == {
        "exhausted_retries", "validation_failed", "parse_error", "timeout",
        "dependency_unavailable", "infrastructure_failure", "policy_violation",
        "compensation_failed",
    }  # fmt: skip


def test_a_cancel_is_soft_or_hard() -> None:
    assert get_args(CancelMode) == ("soft", "hard")


def test_a_failure_is_transient_and_of_the_code_itself_unless_said_otherwise() -> None:
    failure = Failed("boom")
    assert (failure.error_class, failure.stage, failure.exit_code) == (
        "TransientError",
        "exec",
        None,
    )


def test_a_lost_attempt_was_acknowledged_and_costs_unless_said_otherwise() -> None:
    loss = WorkerFailed("lease expired")
    assert (loss.acknowledged, loss.free) == (True, False)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Succeeded(), "result"),
        (Failed("x"), "error"),
        (Killed("x"), "cause"),
        (WorkerFailed("x"), "cause"),
        (TaskFinished(TaskState.FAILED, 1, 0), "state"),
    ],
)
def test_an_outcome_cannot_be_changed_and_equals_its_like(value: object, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, None)
    assert value != "something else"
    assert len({value, value}) == 1
