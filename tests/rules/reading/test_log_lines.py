"""Lines that stretches of output cut anywhere."""

import random
from itertools import pairwise

import pytest

from holdfast.rules.reading.log_lines import (
    LINE_BYTES_MAX,
    Line,
    LineCounter,
    Run,
    find_lines,
    join_stretches,
)

TEXT = b"one\ntwo\r\n\nthree\rfour\n\r\nfive"
LINES = [
    Line(0, b"one"),
    Line(4, b"two"),
    Line(9, b""),
    Line(10, b"three"),
    Line(16, b"four"),
    Line(21, b""),
    Line(23, b"five"),
]


def cut(text: bytes, *positions: int) -> list[Run]:
    edges = [0, *sorted(positions), len(text)]
    return [Run(a, text[a:b]) for a, b in pairwise(edges) if a < b]


def lines_of(run: Run, text: bytes, needle: bytes = b"") -> list[Line]:
    """Find the lines of a part of a text, with what stands around it."""
    before = text[max(run.start_offset - 1, 0) : run.start_offset]
    return list(find_lines(run, needle, before=before, after=text[run.end_offset :]))


def test_lines_of_a_whole_text_end_at_any_kind_of_break() -> None:
    assert list(find_lines(Run(0, TEXT))) == LINES
    assert list(find_lines(Run(0, b""))) == []
    assert list(find_lines(Run(7, b"\n"))) == [Line(7, b"")]


@pytest.mark.parametrize("seed", range(20))
def test_each_line_is_found_once_however_the_text_is_cut(seed: int) -> None:
    dice = random.Random(seed)
    pieces = cut(TEXT, *dice.sample(range(1, len(TEXT)), dice.randint(0, 8)))
    found = [line for piece in pieces for line in lines_of(piece, TEXT)]
    assert found == LINES, pieces


@pytest.mark.parametrize("needle", [b"o", b"e", b"two", b"four", b"five", b"x", b"hree"])
def test_a_text_is_found_in_the_lines_that_have_it(needle: bytes) -> None:
    wanted = [line for line in LINES if needle in line.content]
    for position in range(1, len(TEXT)):
        pieces = cut(TEXT, position)
        found = [line for piece in pieces for line in lines_of(piece, TEXT, needle)]
        assert found == wanted, position


def test_a_line_that_has_a_text_twice_is_found_once() -> None:
    assert list(find_lines(Run(0, b"aa a\naa"), b"a")) == [Line(0, b"aa a"), Line(5, b"aa")]


def test_a_long_line_is_cut() -> None:
    long = b"x" * LINE_BYTES_MAX * 3
    [line] = find_lines(Run(0, b"abc"), after=long + b"\nnext")
    assert line == Line(0, b"abc" + long[: LINE_BYTES_MAX - 3])
    assert [len(line.content) for line in find_lines(Run(0, long + b"\nend"), b"x")] == [
        LINE_BYTES_MAX
    ]


def test_stretches_that_touch_or_overlap_are_one_run() -> None:
    runs = join_stretches([Run(0, b"ab"), Run(1, b"b"), Run(1, b"bcd"), Run(4, b"e"), Run(9, b"x")])
    assert runs == [Run(0, b"abcde"), Run(9, b"x")]
    assert join_stretches([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_counted_the_same_however_the_text_is_cut(seed: int) -> None:
    dice = random.Random(seed)
    counter = LineCounter()
    found = {}
    for piece in cut(TEXT, *dice.sample(range(1, len(TEXT)), dice.randint(0, 8))):
        for line in range(1, len(LINES) + 1):
            if (position := counter.find(line, piece.content)) >= 0:
                found[line] = piece.start_offset + position
        counter.add(piece.content)
    assert (counter.ended, counter.begun) == (len(LINES) - 1, len(LINES))
    assert found == {number: line.offset for number, line in enumerate(LINES, 1)}


def test_what_is_left_out_counts_as_a_line_and_ends_the_one_before() -> None:
    counter = LineCounter()
    counter.add(b"one\ntw")
    before = counter.copy()
    counter.add_left_out()
    assert (before.begun, counter.begun) == (2, 3)
    assert counter.find(4, b"after\n") == 0
    counter.add(b"\nfive")
    assert (counter.ended, counter.begun) == (4, 5)
