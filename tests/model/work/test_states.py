"""States carry the names and numbers of the specification."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.work.states import (
    ENDED_STATES,
    LIVE_STATES,
    OPEN_STATES,
    JobState,
    TaskState,
    parse_state,
    parse_states,
)

NUMBERS = {
    "PENDING": 1,
    "BUILDING": 2,
    "RUNNING": 3,
    "SUCCEEDED": 4,
    "FAILED": 5,
    "KILLED": 6,
    "WORKER_FAILED": 7,
    "UNSCHEDULABLE": 8,
    "ASSIGNED": 9,
    "DEAD_LETTERED": 10,
}


def test_names_and_numbers_are_those_of_the_specification() -> None:
    assert {state.name: state.value for state in TaskState} == NUMBERS
    assert JobState is TaskState


def test_unspecified_is_no_state_that_anything_can_have() -> None:
    with pytest.raises(ValueError, match="0"):
        TaskState(0)


def test_every_state_is_live_or_ended() -> None:
    assert set(TaskState) == LIVE_STATES | ENDED_STATES
    assert not LIVE_STATES & ENDED_STATES
    assert {state.name for state in OPEN_STATES} == {"ASSIGNED", "BUILDING", "RUNNING"}
    assert OPEN_STATES | {TaskState.PENDING} == LIVE_STATES


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("prefix", ["", "TASK_STATE_", "JOB_STATE_"])
def test_a_name_is_read_with_and_without_its_prefix_in_either_case(name: str, prefix: str) -> None:
    state = TaskState[name]
    assert parse_state(prefix + name) is state
    assert parse_state((prefix + name).lower()) is state


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("Queued", "PENDING"),
        ("queued", "PENDING"),
        ("Completed", "SUCCEEDED"),
        ("Canceled", "KILLED"),
        ("cancelled", "KILLED"),
    ],
)
def test_names_of_earlier_systems_are_accepted(name: str, state: str) -> None:
    assert parse_state(name).name == state


@pytest.mark.parametrize(
    "text", ["", "UNSPECIFIED", "TASK_STATE_UNSPECIFIED", "1", "done", " PENDING", "PENDING\x00"]
)
def test_anything_else_is_refused_with_the_names_that_there_are(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_state(text, "status")
    assert caught.value.field == "status"
    assert "DEAD_LETTERED" in caught.value.problem


def test_several_states_are_read_together_and_unsuccessful_is_every_end_but_one() -> None:
    assert parse_states("failed") == {TaskState.FAILED}
    assert parse_states("JOB_STATE_FAILED, dead_lettered") == {
        TaskState.FAILED,
        TaskState.DEAD_LETTERED,
    }
    assert parse_states("Unsuccessful,queued") == {
        *ENDED_STATES - {TaskState.SUCCEEDED},
        TaskState.PENDING,
    }


@pytest.mark.parametrize("text", ["", "failed,", "failed;killed", "failed,eaten", "successful"])
def test_of_several_states_one_that_is_none_is_named(text: str) -> None:
    with pytest.raises(Invalid, match=r"is not a state; use one of .*, or unsuccessful"):
        parse_states(text)
