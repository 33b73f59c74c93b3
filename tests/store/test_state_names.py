"""States by name in SQL become the numbers that Postgres knows."""

import pytest

from holdfast.model.work.states import TaskState
from holdfast.store.state_names import number_states


@pytest.mark.parametrize("state", TaskState)
def test_every_state_has_a_name_in_sql(state: TaskState) -> None:
    assert number_states(f"where state = {{{state.name}}};") == f"where state = {int(state)};"


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("OPEN", "2, 3, 9"),
        ("LIVE", "1, 2, 3, 9"),
        ("ENDED", "4, 5, 6, 7, 8, 10"),
        ("OUTCOMES", "4, 5, 6, 7"),
    ],
)
def test_a_set_of_states_is_a_list_of_numbers(name: str, numbers: str) -> None:
    assert number_states(f"state in ({{{name}}})") == f"state in ({numbers})"


def test_other_braces_are_left_alone() -> None:
    text = "'{resources,bundle}' '{NULL,retried}' '{}' #>> '{backoff,base}' {0,99}"
    assert number_states(text) == text


def test_an_unknown_name_is_a_bug() -> None:
    with pytest.raises(KeyError):
        number_states("state = {DONE}")
