"""Lines in output that is stored in stretches: a line may go on in later ones.

before │ run: stretches without a gap │ after
     …h│alf a line⏎ a line⏎ half a li│ne⏎ …

A line is of the run in which its first byte stands.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

LINE_BYTES_MAX = 64 << 10
_BREAKS = (b"\n", b"\r")
_BREAK = re.compile(rb"\r\n|\r|\n")


class Run(NamedTuple):
    """Output without a gap, from an offset on."""

    start_offset: int
    content: bytes

    @property
    def end_offset(self) -> int:
        """Where the next byte would stand."""
        return self.start_offset + len(self.content)


class Line(NamedTuple):
    """A line without its end, and where it begins."""

    offset: int
    content: bytes


def join_stretches(stretches: Sequence[Run]) -> list[Run]:
    """Put stretches in the order of their offsets together to runs; each byte counts once."""
    runs: list[Run] = []
    for stretch in stretches:
        if runs and stretch.start_offset <= runs[-1].end_offset:
            last = runs[-1]
            new = stretch.content[last.end_offset - stretch.start_offset :]
            runs[-1] = Run(last.start_offset, last.content + new)
        else:
            runs.append(stretch)
    return runs


def find_lines(
    run: Run, needle: bytes = b"", *, before: bytes = b"", after: bytes = b""
) -> Iterator[Line]:
    """Find the lines of a run that have a text in them; all lines, if it is empty.

    `before` is the byte before the run, `after` what follows it: the last line ends there. What is
    beyond 64 KiB of a line is left out.
    """
    begin = _first_line(run.content, before)
    text = run.content
    if not text.endswith(_BREAKS):
        text += after[: _end_of_line(after, 0)][:LINE_BYTES_MAX]
    while begin < len(run.content):
        at = text.find(needle, begin)
        if at < 0:
            return
        begin = 1 + max(text.rfind(mark, begin, at) for mark in _BREAKS) or begin
        end = _end_of_line(text, at)
        if begin >= len(run.content):
            return
        yield Line(run.start_offset + begin, text[begin : min(end, begin + LINE_BYTES_MAX)])
        begin = end + (2 if text.startswith(b"\r\n", end) else 1)


def _first_line(content: bytes, before: bytes) -> int:
    """Find where the first line begins that does not begin before the run."""
    if before == b"\r" and content.startswith(b"\n"):
        return 1
    if before in (b"", *_BREAKS):
        return 0
    end = _end_of_line(content, 0)
    return end + (2 if content.startswith(b"\r\n", end) else 1)


def _end_of_line(text: bytes, start: int) -> int:
    """Find the end of the line that has a position."""
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    other = text.find(b"\r", start, end)
    return end if other < 0 else other


class LineCounter:
    """Counts lines of output that comes in pieces; one that is left out counts as a line.

    That line is what a reader sees in the place of what is left out.
    """

    def __init__(self, ended: int = 0, last: bytes = b"\n") -> None:
        self.ended = ended
        self._last = last

    @property
    def begun(self) -> int:
        """Count the lines, with one that has no end yet."""
        return self.ended + (self._last not in _BREAKS)

    def copy(self) -> "LineCounter":
        """Make another one that has counted the same."""
        return LineCounter(self.ended, self._last)

    def add(self, content: bytes) -> None:
        """Count what comes next."""
        breaks = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
        self.ended += breaks - self._ends_a_break(content)
        self._last = content[-1:] or self._last

    def add_left_out(self) -> None:
        """Count what is left out."""
        self.ended, self._last = self.begun + 1, b"\n"

    def find(self, line: int, content: bytes) -> int:
        """Find where a line begins in what comes next; -1 if it begins before that or after."""
        position = int(self._ends_a_break(content))
        if self.ended + 1 == line and self._last in _BREAKS:
            return position
        wanted = line - 1 - self.ended
        if wanted < 1:
            return -1
        match = next(islice(_BREAK.finditer(content, position), wanted - 1, None), None)
        # At the very end it is not known yet whether more of the line's end follows.
        return -1 if match is None or match.end() == len(content) else match.end()

    def _ends_a_break(self, content: bytes) -> bool:
        return self._last == b"\r" and content.startswith(b"\n")
