"""Instants follow a plain model of calendars and clocks, both changes of the clock included."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.rules.schedules.instants import (
    ALIASES,
    due_at,
    expand,
    instants_after,
    next_instant,
    read_zone,
)

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
# Zones and the moments about which their clocks are changed.
CHANGES = [
    ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    ("Australia/Sydney", datetime(2026, 4, 4, 16, tzinfo=UTC)),
    ("Australia/Sydney", datetime(2026, 10, 3, 16, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 9, 6, 4, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2028, 2, 29, tzinfo=UTC)),
]


class Field(NamedTuple):
    """One field of an expression, and the numbers that it means."""

    text: str
    numbers: frozenset[int]


def fields(first: int, last: int) -> some.SearchStrategy[Field]:
    """Draw a field: a star, steps, a range, a list."""
    numbers = range(first, last + 1)
    steps = some.integers(2, max(2, last // 2))
    ranges = some.tuples(some.integers(first, last), some.integers(first, last)).map(sorted)
    return some.one_of(
        some.just(Field("*", frozenset(numbers))),
        steps.map(lambda step: Field(f"*/{step}", frozenset(numbers[::step]))),
        ranges.map(lambda r: Field(f"{r[0]}-{r[1]}", frozenset(range(r[0], r[1] + 1)))),
        some.lists(some.integers(first, last), min_size=1, max_size=4).map(
            lambda given: Field(",".join(map(str, given)), frozenset(given))
        ),
    )


def is_day(day: date, days: Field, weekdays: Field) -> bool:
    by_date, by_weekday = day.day in days.numbers, day.isoweekday() % 7 in weekdays.numbers
    if days.text.startswith("*") or weekdays.text.startswith("*"):
        return by_date and by_weekday
    return by_date or by_weekday


def plain_instants(
    zone: ZoneInfo, parts: list[Field], begin: datetime, end: datetime
) -> Iterator[datetime]:
    """Try every minute: of the clock on the wall, or of time as it passes."""
    minutes, hours, days, weekdays = parts
    if minutes.text.startswith("*") or hours.text.startswith("*"):
        moment = begin
        while moment < end:
            wall = moment.astimezone(zone)
            if (
                wall.minute in minutes.numbers
                and wall.hour in hours.numbers
                and is_day(wall.date(), days, weekdays)
            ):
                yield moment
            moment += MINUTE
        return
    day = begin.astimezone(zone).date()
    while day <= end.astimezone(zone).date():
        for hour in sorted(hours.numbers) if is_day(day, days, weekdays) else ():
            for minute in sorted(minutes.numbers):
                wall = datetime.combine(day, time(hour, minute))
                while (
                    wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
                    != wall
                ):
                    wall += MINUTE  # it does not exist
                yield wall.replace(tzinfo=zone).astimezone(UTC)
        day += DAY


@given(
    some.sampled_from(CHANGES),
    some.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(0, 6)),
)
def test_instants_are_those_of_a_plain_calendar(
    change: tuple[str, datetime], drawn: tuple[Field, ...]
) -> None:
    name, moment = change
    begin, end = moment - DAY, moment + DAY
    parts = list(drawn)
    minutes, hours, days, weekdays = (part.text for part in parts)
    terms = ScheduleTerms(
        cron=f"{minutes} {hours} {days} * {weekdays}", tz=name, end_at=end - MINUTE
    )
    expected = {i for i in plain_instants(ZoneInfo(name), parts, begin, end) if begin <= i < end}
    assert list(instants_after(terms, begin - MINUTE / 2)) == sorted(expected)


@given(
    some.sampled_from(CHANGES),
    some.sampled_from(
        ["30 2 * * *", "0,30 1-3 * * *", "*/20 * * * *", "15 */2 * * *", "0 0 * * *"]
    ),
    some.integers(-1500, 1500),
)
def test_wherever_one_begins_the_instants_are_the_same(
    change: tuple[str, datetime], cron: str, minutes: int
) -> None:
    name, moment = change
    terms = ScheduleTerms(cron=cron, tz=name, end_at=moment + 2 * DAY)
    whole = list(instants_after(terms, moment - 2 * DAY))
    after = moment + minutes * MINUTE
    assert list(instants_after(terms, after)) == [i for i in whole if i > after]


@pytest.mark.parametrize(
    ("cron", "day", "expected"),
    [
        # A time that does not exist comes at the end of the gap; two of them come once.
        ("30 2 * * *", date(2026, 3, 29), ["03:00+02:00"]),
        ("0,30 2 * * *", date(2026, 3, 29), ["03:00+02:00"]),
        ("*/30 2 * * *", date(2026, 3, 29), []),
        # A time that comes twice is meant the first time; a star means all the time that passes.
        ("30 2 * * *", date(2026, 10, 25), ["02:30+02:00"]),
        ("*/30 2 * * *", date(2026, 10, 25), [
            "02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00",
        ]),
    ],
)  # fmt: skip
def test_the_policy_of_changed_clocks(cron: str, day: date, expected: list[str]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    midnight = datetime.combine(day, time(), tzinfo=zone)
    terms = ScheduleTerms(cron=cron, tz="Europe/Berlin", end_at=midnight + DAY)
    found = [i.astimezone(zone) for i in instants_after(terms, midnight.astimezone(UTC))]
    assert [i.isoformat(timespec="minutes")[11:] for i in found] == expected


@pytest.mark.parametrize("cron", ["*/30 1 * * 0", "*/30 1 6 * *", "*/30 1 6 9 *", "*/30 0-1 * 9 0"])
def test_the_first_hour_of_a_day_that_begins_in_a_gap(cron: str) -> None:
    midnight = datetime(2026, 9, 6, 4, tzinfo=UTC)  # 00:00 in Santiago is 01:00 already
    terms = ScheduleTerms(cron=cron, tz="America/Santiago", end_at=midnight + DAY / 2)
    found = list(instants_after(terms, midnight - 6 * DAY))
    assert found == [midnight, midnight + 30 * MINUTE]


def test_a_leap_day_comes_every_four_years() -> None:
    terms = ScheduleTerms(cron="0 12 29 2 *", tz="Europe/Paris")
    found = islice(instants_after(terms, datetime(2026, 1, 1, tzinfo=UTC)), 3)
    assert [instant.year for instant in found] == [2028, 2032, 2036]


@given(
    some.floats(1, 1e6),
    some.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=some.just(UTC)),
    some.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=some.just(UTC)),
)
def test_intervals_count_from_the_start_whatever_clocks_do(
    every: float, start: datetime, after: datetime
) -> None:
    terms = ScheduleTerms(every=every, tz="Europe/Berlin", start_at=start)
    first, second = islice(instants_after(terms, after), 2)
    step = timedelta(seconds=every)
    assert first > after
    assert first >= start
    assert (first - start) % step == timedelta(0)
    assert first - after <= step or first == start
    assert second - first == step


def test_a_schedule_has_a_beginning_and_an_end() -> None:
    start, end = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 4, tzinfo=UTC)
    terms = ScheduleTerms(cron="0 0 * * *", start_at=start, end_at=end)
    found = list(instants_after(terms, datetime(2025, 1, 1, tzinfo=UTC)))
    assert found == [start, start + DAY, end]
    assert next_instant(terms, end) is None
    weekly = ScheduleTerms(every=7 * 86_400, start_at=datetime(8999, 12, 30, tzinfo=UTC))
    assert len(list(instants_after(weekly, start))) == 1  # the calendar ends there


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "Europe"])
def test_what_is_no_zone_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(Invalid, match="Europe/Berlin") as refused:
        read_zone(name)
    assert refused.value.field == "tz"


@pytest.mark.parametrize("cron", ["x", "61 * * * *", "* * * *", "0 0 31 2 *", "*/0 * * * *"])
def test_what_is_no_expression_is_refused_with_its_fields(cron: str) -> None:
    with pytest.raises(Invalid, match="write five fields") as refused:
        next_instant(ScheduleTerms(cron=cron), datetime(2026, 1, 1, tzinfo=UTC))
    assert refused.value.field == "cron"


def test_names_stand_for_expressions() -> None:
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    for name, cron in ALIASES.items():
        assert expand(name.upper()) == cron
        named, written = ScheduleTerms(cron=name), ScheduleTerms(cron=cron)
        assert next_instant(named, midnight) == next_instant(written, midnight)
    assert next_instant(ScheduleTerms(cron="*/10 * * * * *"), midnight) == midnight + MINUTE / 6


@given(some.text(min_size=1), some.floats(0.001, 86_400), some.integers(0, 10**9))
def test_jitter_is_bounded_and_always_the_same(name: str, jitter: float, seconds: int) -> None:
    terms = ScheduleTerms(every=60, jitter=jitter)
    instant = datetime.fromtimestamp(seconds, UTC)
    due = due_at(name, terms, instant)
    assert timedelta(0) <= due - instant <= timedelta(seconds=jitter)
    assert due == due_at(name, terms, instant)
    assert due_at(name, ScheduleTerms(every=60), instant) == instant


def test_jitter_spreads_names_and_instants() -> None:
    terms = ScheduleTerms(every=60, jitter=100.0)
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    spread = sorted((due_at(f"s{n}", terms, instant) - instant).total_seconds() for n in range(400))
    assert max(b - a for a, b in pairwise([0.0, *spread, 100.0])) < 5
    assert due_at("s", terms, instant) != due_at("s", terms, instant + MINUTE) - MINUTE
