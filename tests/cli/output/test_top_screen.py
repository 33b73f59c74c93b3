"""The screen of `top` in whatever size: no line too many, none too wide, nothing that steers."""

from io import StringIO

import pytest
from rich.console import Console

from holdfast.cli.output.top_look import Look, Section
from holdfast.cli.output.top_screen import draw, share_lines
from holdfast.wire.status import QueueStatus
from tests.cli.output.test_top_look import a_look, job

MESSY = "bad\x1b[2J\nname 日本語 " + "x" * 300


def screen(look: Look | None, width: int, height: int, **more: object) -> list[str]:
    """Draw a look; gives the lines."""
    console = Console(file=StringIO(), width=width, height=height, force_terminal=False)
    options: dict[str, object] = {"sort": "load", **more}
    console.print(draw(look, size=(width, height), **options))  # type: ignore[arg-type]
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 10), (20, 5), (300, 200)])
def test_messy_names_and_many_rows_fit_any_terminal(size: tuple[int, int]) -> None:
    width, height = size
    queues = [QueueStatus(queue=f"{n} {MESSY}", depth=n) for n in range(60)]
    jobs = [job(str(n), MESSY, 1) for n in range(60)]
    lines = screen(a_look(queues=queues, jobs=jobs, server=MESSY), width, height, away=MESSY)
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert len(lines) <= max(height, 6)
    assert max(map(Console(width=width).measure, lines), key=lambda m: m.maximum).maximum <= width
    assert lines[-1].startswith("q quit"[: width - 1])
    assert height < 24 or "60)" in text


def test_a_server_that_is_away_is_said_above_what_was_seen_last() -> None:
    lines = screen(a_look(), 80, 24, away="away for 5.0 s: refused")
    assert lines[1] == "away for 5.0 s: refused"
    assert any(line.startswith("bulk") for line in lines)
    assert screen(None, 80, 24)[0] == "asking the server"


def test_what_is_typed_is_shown() -> None:
    assert screen(a_look(), 80, 24, only="ma", is_typing=True)[-1].endswith("(load)  only: ma_")


def test_the_largest_section_gives_way_first_and_the_last_goes_first() -> None:
    sections = [Section("s", (), [()] * count) for count in (1, 20, 5)]
    assert share_lines(sections, 100) == [3, 22, 7]
    assert share_lines(sections, 20) == [3, 10, 7]
    assert share_lines(sections, 12) == [3, 4, 5]
    assert share_lines(sections, 8) == [3, 3, 0]
    assert share_lines(sections, 2) == [0, 0, 0]
