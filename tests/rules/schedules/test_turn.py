"""What turns decide, beside a plain model that looks at all instants at once."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.model.submitting.schedules import CatchUp, Overlap, ScheduleTerms
from holdfast.rules.schedules import turn as turns
from holdfast.rules.schedules.instants import due_at
from holdfast.rules.schedules.turn import FIRINGS_MAX, LOOK_MAX, decide_turn

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def every(seconds: float, **fields: object) -> ScheduleTerms:
    return ScheduleTerms(every=seconds, start_at=START, **fields)  # type: ignore[arg-type]


class Story:
    """A schedule that is looked at now and then."""

    def __init__(self, terms: ScheduleTerms) -> None:
        self.terms = terms
        self.next_at: datetime | None = START
        self.fired: list[datetime] = []
        self.missed: list[datetime] = []

    def look(self, now: datetime) -> None:
        """Take turns until nothing is due."""
        step = timedelta(seconds=self.terms.every or 1)
        while self.next_at is not None and due_at("s", self.terms, self.next_at) <= now:
            before = self.next_at
            turn = decide_turn("s", self.terms, self.next_at, now=now)
            assert len(turn.firings) <= (FIRINGS_MAX if self.terms.overlap == "allow" else 1)
            if turn.missed is not None:
                gone = [turn.missed.first + n * step for n in range(turn.missed.instants)]
                assert gone[-1] == turn.missed.last
                self.missed += gone
            self.fired += [firing.instant for firing in turn.firings]
            self.next_at = turn.next_at
            assert self.next_at is None or self.next_at > before


def plain_turn(
    terms: ScheduleTerms, waiting: list[datetime], now: datetime
) -> tuple[list[datetime], list[datetime]]:
    """Decide about all instants that have come, at once: those fired, and those missed."""
    late_after = timedelta(seconds=terms.late_max + terms.jitter)
    late = [instant for instant in waiting if now - instant > late_after]
    rest = [instant for instant in waiting if now - instant <= late_after]
    made_up = {"skip": [], "one": [] if rest else late[-1:], "all": late[-terms.catch_up_max :]}
    caught_up: list[datetime] = made_up[terms.catch_up]
    return caught_up + rest, [instant for instant in late if instant not in caught_up]


@given(
    some.sampled_from(["skip", "one", "all"]),
    some.sampled_from(["skip", "allow"]),
    some.integers(1, 100),
    some.sampled_from([1, 7, 60, 3600]),
    some.sampled_from([0.0, 3.0, 100.0]),
    some.lists(some.integers(0, 5000), min_size=1, max_size=5),
)
def test_turns_make_of_all_instants_what_the_plain_model_makes(
    catch_up: CatchUp,
    overlap: Overlap,
    catch_up_max: int,
    seconds: int,
    jitter: float,
    pauses: list[int],
) -> None:
    terms = every(
        seconds, catch_up=catch_up, catch_up_max=catch_up_max, overlap=overlap, jitter=jitter
    )
    story = Story(terms)
    now, fired, missed, seen = START, [], [], START - SECOND
    for pause in pauses:
        now += timedelta(seconds=pause)
        story.look(now)
        come = []
        instant = seen + SECOND if seen < START else seen + seconds * SECOND
        while due_at("s", terms, instant) <= now:
            come.append(instant)
            seen = instant
            instant += seconds * SECOND
        more_fired, more_missed = plain_turn(terms, come, now)
        fired += more_fired
        missed += more_missed
        assert story.fired == fired
        assert story.missed == missed
    assert not set(fired) & set(missed)


def test_what_is_on_time_is_fired_whatever_the_policy() -> None:
    for catch_up in ("skip", "one", "all"):
        turn = decide_turn("s", every(60, catch_up=catch_up), START, now=START + 30 * SECOND)
        assert [(firing.instant, firing.kind) for firing in turn.firings] == [(START, "scheduled")]
        assert (turn.missed, turn.next_at) == (None, START + 60 * SECOND)


def test_a_month_of_seconds_is_missed_in_bounded_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOK_MAX", 50)
    story = Story(every(1, catch_up="all", catch_up_max=3))
    story.look(START + 1000 * SECOND)
    assert len(story.missed) == 1001 - 61 - 3
    assert story.fired[0] == story.missed[-1] + SECOND
    assert len(story.fired) == 64


def test_an_ended_schedule_has_no_next_instant() -> None:
    turn = decide_turn(
        "s", every(60, end_at=START + 60 * SECOND), START + 60 * SECOND, now=START + 61 * SECOND
    )
    assert turn.next_at is None
    assert len(turn.firings) == 1
    assert LOOK_MAX == 1000
