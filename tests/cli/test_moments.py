"""Moments: so long ago, or at a time."""

from datetime import UTC, datetime

import pytest

from holdfast.cli.moments import parse_moment, parse_span, parse_time
from holdfast.errors import Invalid

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90s", "2026-11-16T11:58:30Z"),
        ("10m", "2026-11-16T11:50:00Z"),
        ("1.5h", "2026-11-16T10:30:00Z"),
        ("1d", "2026-11-15T12:00:00Z"),
        ("2w", "2026-11-02T12:00:00Z"),
        ("2026-11-16T13:00:00+02:00", "2026-11-16T11:00:00Z"),
        ("2026-11-16 11:00:00Z", "2026-11-16T11:00:00Z"),
    ],
)
def test_a_moment_is_an_age_or_a_time(text: str, wanted: str) -> None:
    assert parse_moment(text, "--since", now=NOW) == datetime.fromisoformat(wanted)


def test_a_time_without_a_zone_is_one_of_this_machine() -> None:
    here = datetime(2026, 11, 16, 9).astimezone()
    assert parse_moment("2026-11-16T09:00", "--since") == here
    assert parse_moment(None, "--since") is None


@pytest.mark.parametrize("text", ["", "10", "10x", "m", "-5m", "yesterday", "999999999w", "25:00"])
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Invalid, match="write 10m, 2h, 1d") as refused:
        parse_moment(text, "--since")
    assert refused.value.field == "--since"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("0.5d", 43_200), (" 1w ", 604_800), (None, None)],
)
def test_a_span_has_units(text: str | None, seconds: float | None) -> None:
    assert parse_span(text, "--delay") == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "m5", "1h30", "-5m", "soon"])
def test_what_is_no_span_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Invalid, match="is not a span; write 90s, 5m, 1h30m or 2d"):
        parse_span(text, "--delay")


@pytest.mark.parametrize("text", ["999999999w", "999999999d" * 2])
def test_a_span_beyond_all_calendars_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is too long; give a year at most"):
        parse_span(text, "--delay")


def test_a_time_to_start_at_is_of_its_zone_or_of_this_machine() -> None:
    assert parse_time("2026-11-18T09:00+01:00", "--at") == 1_794_988_800
    assert parse_time("2026-11-18T09:00", "--at") == datetime(2026, 11, 18, 9).timestamp()
    assert parse_time(None, "--at") is None


@pytest.mark.parametrize("text", ["", "5m", "09:00", "tomorrow", "2026-13-01"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match=r"is not a time; write it like 2026-11-18T09:00"):
        parse_time(text, "--at")
