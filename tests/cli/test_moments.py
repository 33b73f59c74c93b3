"""Moments: so long ago, or at a time."""

from datetime import UTC, datetime

import pytest

from holdfast.cli.moments import parse_moment
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
