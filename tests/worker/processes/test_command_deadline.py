"""When a command has to end, by what was said of it."""

import pytest

from holdfast.worker.processes.command_deadline import (
    SAY_HARD,
    CommandDeadline,
    say_deadline,
    say_soft,
)


def test_the_deadline_moves_either_way_and_ends_the_command() -> None:
    due = CommandDeadline(100.0)
    due.obey(say_deadline(200.0), 10.0)
    assert not due.must_end(150.0)
    due.obey(say_deadline(50.0), 10.0)
    assert due.at == 50.0
    assert due.must_end(50.0)
    assert due.reason == "lease"


def test_a_command_is_asked_once_and_its_grace_does_not_grow() -> None:
    due = CommandDeadline(100.0)
    assert due.obey(say_soft(10.0), 10.0)
    assert not due.obey(say_soft(60.0), 12.0)
    assert (due.at, due.reason) == (20.0, "soft")
    assert due.must_end(20.0)
    due.obey(SAY_HARD, 13.0)
    assert due.must_end(13.0)
    assert due.reason == "hard"


@pytest.mark.parametrize("line", ["", "soft", "deadline inf", "deadline nan", "harder", "soft x"])
def test_a_line_that_makes_no_sense_is_refused(line: str) -> None:
    due = CommandDeadline(100.0)
    with pytest.raises(ValueError):
        due.obey(line, 10.0)
    assert due.at == 100.0
