"""The screen of `top`: a look drawn into as many lines and columns as the terminal has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output.text import inert, span
from holdfast.cli.output.top_look import Look, Section, list_sections, summarise

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

KEYS = "q quit  s sort  / filter"
SECTION_LINES_MIN = 3  # its title, the titles of its columns, and one row
TABLE_COLUMNS_MAX = 140
_STYLES = {
    "healthy": "green",
    "failing": "yellow",
    "silent": "yellow",
    "lost": "red",
    "warning": "yellow",
    "critical": "bold red",
}


def draw(
    look: Look | None,
    *,
    size: tuple[int, int],
    sort: str,
    only: str = "",
    is_typing: bool = False,
    away: str | None = None,
) -> "RenderableType":
    """Draw a look within a width and a height; `away` says why there is no newer one."""
    from rich.console import Group
    from rich.text import Text

    width, height = size
    lines: list[RenderableType] = [_cut(each, width) for each in _head(look, away)]
    if look is not None:
        lines += [_cut(Text(inert(each)), width) for each in summarise(look)]
        room = height - len(lines) - 1
        sections = list_sections(look, sort=sort, only=only)
        for section, count in zip(sections, share_lines(sections, room), strict=True):
            if count >= SECTION_LINES_MIN:
                lines.append(_title(section, count - 2, width))
                lines.append(_table(section, count - 2, width))
    shown = f"  only: {inert(only)}{'_' if is_typing else ''}" if only or is_typing else ""
    lines.append(_cut(Text(f"{KEYS} ({sort}){shown}", style="dim"), width))
    return Group(*lines)


def share_lines(sections: Sequence[Section], room: int) -> list[int]:
    """Give every section as many lines as it wants, or less of the largest; the last go first."""
    lines = [len(section.rows) + 2 for section in sections]
    while sum(lines) > room:
        largest = max(range(len(lines)), key=lambda place: lines[place])
        if lines[largest] > SECTION_LINES_MIN:
            lines[largest] -= 1
            continue
        kept = [place for place, count in enumerate(lines) if count]
        if not kept:
            break
        lines[kept[-1]] = 0
    return lines


def _head(look: Look | None, away: str | None) -> "list[RenderableType]":
    from rich.text import Text

    if look is None:
        return [Text(inert(away or "asking the server"), style="bold")]
    version = f"  version {look.version}" if look.version else ""
    pace = f"  rates over {span(look.rates_over_seconds)}"
    title = Text.assemble(("holdfast top", "bold"), inert(f"  {look.server}{version}{pace}"))
    if away is None:
        return [title]
    return [title, Text(inert(away), style="bold white on red")]


def _title(section: Section, count: int, width: int) -> "RenderableType":
    from rich.text import Text

    whole = len(section.rows)
    some = f" ({count} of {whole})" if count < whole else f" ({whole})"
    return _cut(Text.assemble((section.title, "bold"), some), width)


def _table(section: Section, count: int, width: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
        width=min(width, TABLE_COLUMNS_MAX),
    )
    for column in section.columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if column.flexible else len(column.title),
            ratio=1 if column.flexible else None,
        )
    for row in section.rows[:count]:
        table.add_row(*(Text(inert(cell), style=_STYLES.get(cell, "")) for cell in row))
    return table


def _cut(text: "RenderableType", width: int) -> "RenderableType":
    """Keep a line one line, however narrow the terminal is."""
    from rich.text import Text

    assert isinstance(text, Text)
    text.truncate(max(width, 1), overflow="ellipsis")
    text.no_wrap = True
    return text
