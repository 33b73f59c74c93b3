"""Versions and times in headers: what is said is read, and anything else is nothing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.model.programs import own_program, own_version, read_date, read_version, write_date


def test_what_this_program_says_of_itself_can_be_read() -> None:
    assert read_version(own_program().encode()) == own_version()


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (b"holdfast/1.2.3rc1", "1.2.3rc1"),
        (b"holdfast/1.2 (worker)", "1.2"),
        (b"Python/3.11 aiohttp/3.14", None),
        (b"holdfast/", None),
        (b"holdfast/\xff\x1b[2J", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_version_is_read_if_there_is_one(header: bytes | None, version: str | None) -> None:
    assert read_version(header) == version


def test_a_time_is_written_in_whole_seconds_and_read_again() -> None:
    at = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=2)))
    assert write_date(at) == "Tue, 03 Feb 2026 02:05:06 GMT"
    assert read_date(write_date(at).encode()) == datetime(2026, 2, 3, 2, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "header",
    [
        *(None, b"", b"yesterday", b"\xff", b"Tue, 99 Feb 2026 02:05:06"),
        b"Fri, 31 Dec 9999 23:00:00 -0200",  # the year 10000 of UTC
    ],
)
def test_what_is_no_time_is_none(header: bytes | None) -> None:
    assert read_date(header) is None
