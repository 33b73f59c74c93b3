"""Outcomes and verdicts are values; their words are the specification's."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from holdfast.errors import Invalid
from holdfast.model.work.outcomes import (
    STAGES,
    CancelMode,
    Failed,
    Killed,
    ReasonCode,
    Stage,
    Succeeded,
    TaskFinished,
    WorkerFailed,
    parse_status,
)
from holdfast.model.work.states import TaskState


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


def test_a_lost_attempt_costs_unless_said_otherwise() -> None:
    loss = WorkerFailed("lease expired")
    assert (loss.excused, loss.free) == (False, False)


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


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("succeeded", "succeeded"),
        ("SUCCEEDED", "succeeded"),
        ("Completed", "succeeded"),
        ("TASK_STATE_SUCCEEDED", "succeeded"),
        ("Failed", "failed"),
        ("JOB_STATE_FAILED", "failed"),
        ("Canceled", "killed"),
        ("cancelled", "killed"),
        ("TASK_STATE_WORKER_FAILED", "worker_failed"),
        ("HANDED_BACK", "handed_back"),
    ],
)
def test_a_status_goes_by_every_name_of_the_state_it_ends_in(text: str, status: str) -> None:
    assert parse_status(text) == status


@pytest.mark.parametrize("text", ["", "Queued", "RUNNING", "DEAD_LETTERED", "done"])
def test_what_is_no_end_of_an_attempt_is_no_status(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_status(text)
    assert refused.value.field == "status"
