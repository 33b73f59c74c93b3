"""Words for people: nobody's text steers a terminal, and times read as people say them."""

import time
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.output.text import (
    age,
    decimal,
    first_line,
    in_ms,
    inert,
    local_times,
    moment,
    size,
    size_of,
    span,
    state_name,
    took,
)

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ünïcode, 日本語 🎉", "plain text, ünïcode, 日本語 🎉"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("bell\x07 delete\x7f", r"bell\x07 delete\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("half\ud800", r"half\ud800"),
        ("no\xa0break", "no\xa0break"),
    ],
)
def test_what_would_steer_a_terminal_is_shown_instead(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_what_is_to_be_kept_is_kept() -> None:
    assert inert("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@given(st.text())
def test_inert_text_is_printable_and_stays_so(text: str) -> None:
    once = inert(text)
    assert all(each.isprintable() or unicodedata.category(each) == "Zs" for each in once)
    assert inert(once) == once


@pytest.mark.parametrize(
    ("name", "short"),
    [("TASK_STATE_RUNNING", "running"), ("JOB_STATE_DEAD_LETTERED", "dead_lettered")],
)
def test_a_state_is_known_by_its_short_name(name: str, short: str) -> None:
    assert state_name(name) == short


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 ms"),
        (0.0123, "12 ms"),
        (1.25, "1.2 s"),
        (42.3, "42 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (3600, "1 h"),
        (7380, "2 h 3 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_span_is_told_in_its_largest_units(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_an_instant_is_told_by_its_age() -> None:
    now_ms = time.time() * 1000
    assert age(None) == ""
    assert age(now_ms) == "now"
    assert age(now_ms - 1.5 * HOUR_MS) == "1 h ago"
    assert age(now_ms + 2.5 * HOUR_MS) == "in 2 h"
    assert moment(now_ms - 1.5 * HOUR_MS).endswith(" (1 h ago)")
    assert moment(None) == ""


def test_what_runs_is_told_with_how_long_it_has_run() -> None:
    assert took(None, None) == ""
    assert took(1_000, 3_500) == "2.5 s"
    assert took(int(time.time() * 1000 - 1.5 * HOUR_MS), None).startswith("1 h 30 min")


def test_instants_come_in_milliseconds() -> None:
    assert in_ms(datetime.fromtimestamp(5, UTC)) == 5000
    assert in_ms(None) is None


def test_an_error_in_a_table_is_its_first_line() -> None:
    assert first_line("ValueError: no\n\nTraceback ...") == "ValueError: no"
    assert first_line(None) == ""


def test_sizes_are_told_in_the_unit_that_suits_them() -> None:
    assert [size(amount) for amount in (0, 999, 34_500_000, 2 * 10**12)] == [
        "0B",
        "999B",
        "34.5MB",
        "2TB",
    ]
    assert size_of(500_000_000, 8_000_000_000) == "0.5/8GB"
    assert [decimal(amount) for amount in (2.0, 0.25, 1.5)] == ["2", "0.2", "1.5"]


def test_moments_in_a_sentence_are_written_in_the_time_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        said = local_times("retry due at 2031-07-01T22:30:00Z, in queue 2031-07-01")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert said == "retry due at 2031-07-02 00:30:00, in queue 2031-07-01"
