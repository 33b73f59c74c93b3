"""A firing beside jobs that have not ended: skipped, after them, in their stead, or beside them."""

import pytest

from holdfast.errors import Refused
from holdfast.rules.schedules.overlap import OPEN_MAX, Waits, decide_overlap, refuse_too_many
from tests.timetable import HOUR, at


def test_nothing_is_waited_for_where_nothing_runs() -> None:
    for overlap in ("skip", "queue", "cancel", "allow"):
        assert decide_overlap(overlap, []) == Waits()


def test_what_runs_is_waited_for_skipped_for_or_stopped() -> None:
    assert decide_overlap("skip", [3, 5]) == "job 5 of an earlier firing has not ended"
    assert decide_overlap("queue", [3, 5]) == Waits((3, 5))
    assert decide_overlap("cancel", [3, 5]) == Waits((3, 5), cancels=True)
    assert decide_overlap("allow", [3, 5]) == Waits()


def test_a_queue_is_bounded() -> None:
    many = list(range(1, OPEN_MAX + 1))
    assert isinstance(decide_overlap("queue", many), str)
    assert decide_overlap("queue", many[1:]) == Waits(tuple(many[1:]))
    assert decide_overlap("allow", many) == Waits()


def test_as_many_line_up_as_fit_behind_those_that_wait() -> None:
    instants = [at("2030-01-01T00:00") + n * HOUR for n in range(OPEN_MAX + 1)]
    refuse_too_many([], instants[1:])
    refuse_too_many([1, 2], instants[3:])
    refuse_too_many(list(range(OPEN_MAX + 1)), [])
    with pytest.raises(Refused, match=r"backfill until 2030-01-05T03:00:00\+00:00, or"):
        refuse_too_many([], instants)
    with pytest.raises(Refused, match="wait until one of them has ended"):
        refuse_too_many(list(range(OPEN_MAX)), instants[:1])
