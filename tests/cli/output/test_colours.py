"""States look the same everywhere."""

from holdfast.cli.output.colours import COLOURS, badge
from holdfast.model.work.states import TaskState


def test_every_state_has_its_colour_and_badge() -> None:
    assert COLOURS.keys() == set(TaskState)
    for state in TaskState:
        assert badge(state).plain == f" {state.name.lower()} "
        assert COLOURS[state] in str(badge(state).style)


def test_a_badge_may_be_labelled_otherwise() -> None:
    assert badge(TaskState.ASSIGNED, "claimed").plain == " claimed "
    assert badge(TaskState.ASSIGNED, "claimed").style == badge(TaskState.ASSIGNED).style
