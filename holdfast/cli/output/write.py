"""How answers are shown: tables for people, JSON for programs.

A terminal gets colours and columns cut to its width; whoever reads through a pipe gets plain text,
whole, one row a line. Text of users passes through `inert` on its way to either.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.cli.output.text import inert, state_name
from holdfast.cli.output.unread import while_read

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GAP = "  "
FLEXIBLE_WIDTH_MIN = 12
# Legal in JSON as they are, but some terminals obey them, or show what follows in another order.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class State(str):
    """A state's short name, which a terminal shows as a badge; it may be labelled otherwise."""

    state: str

    def __new__(cls, state: str, label: str | None = None) -> "State":
        """Make a cell; its text is the label."""
        cell = super().__new__(cls, state if label is None else label)
        cell.state = state
        return cell


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; where the terminal is too narrow, a flexible one is cut.

    Where that is not enough, spare ones are left out, the last one first.
    """

    title: str
    right: bool = False
    flexible: bool = False
    spare: bool = False


def state(name: str) -> State:
    """Take a state from the wire as a cell."""
    return State(state_name(name))


def is_terminal() -> bool:
    """Tell whether a person reads this."""
    return sys.stdout.isatty()


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Write rows under their titles; on a terminal without the columns that hold nothing."""
    cells = [[inert(cell) if type(cell) is str else cell for cell in row] for row in rows]
    if is_terminal():
        _draw_table(columns, cells)
    else:
        _write_plain(columns, cells)


def write_fields(fields: Mapping[str, str]) -> None:
    """Write what is known of one thing, a line each; what is empty is left out."""
    known = {name: text for name, text in fields.items() if text}
    width = max(map(len, known), default=0)
    console = open_console() if is_terminal() else None
    for name, text in known.items():
        for index, line in enumerate(text.rstrip("\n").split("\n")):
            label = "" if index else name
            if console is None:
                sys.stdout.write(f"{label:<{width}}{GAP}{inert(line)}".rstrip() + "\n")
            else:
                from rich.text import Text

                dim = (f"{label:<{width}}{GAP}", "dim")
                console.print(Text.assemble(dim, cell_text(line)), soft_wrap=True)


def write_title(words: str, state: State | None = None) -> None:
    """Write what the lines below are about."""
    if not is_terminal():
        sys.stdout.write(inert(words) + (f"{GAP}{state}" if state else "") + "\n")
        return
    from rich.text import Text

    title = Text.assemble((inert(words), "bold"))
    if state is not None:
        title.append(GAP).append_text(cell_text(state))
    open_console().print(title, soft_wrap=True)


def write_line(*parts: str) -> None:
    """Write one line of parts, a state among them as a badge."""
    if not is_terminal():
        sys.stdout.write(GAP.join(inert(part) for part in parts if part).rstrip() + "\n")
        return
    from rich.text import Text

    texts = [cell_text(part) for part in parts if part]
    open_console().print(Text(GAP).join(texts), soft_wrap=True)


def write_json(document: Any, *, indented: bool = True) -> None:
    """Write one JSON document; those that follow each other stand in one line each."""
    import msgspec

    text = msgspec.json.encode(document)
    if indented:
        text = msgspec.json.format(text, indent=2)
    sys.stdout.write(_escape(text.decode()) + "\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Tell a person something that is no part of the answer; with nobody there, go on."""
    with while_read(sys.stderr):
        sys.stderr.write(f"{inert(text)}\n")


def open_console() -> "Console":
    """Give the terminal; text is written as it is, without markup of any kind."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def cell_text(cell: str) -> "Text":
    """Dress a cell for a terminal."""
    from rich.text import Text

    if isinstance(cell, State):
        from holdfast.cli.output.colours import badge
        from holdfast.model.work.states import TaskState

        known = TaskState.__members__.get(cell.state.upper())
        return Text(f" {inert(cell)} ") if known is None else badge(known, inert(cell))
    # Cut, not wrapped: one row stays one line.
    return Text(inert(cell), no_wrap=True, overflow="ellipsis")


def _draw_table(columns: Sequence[Column], rows: list[list[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, len(GAP), 0, 0), pad_edge=False, header_style="dim")
    drawn = [[cell_text(cell) for cell in row] for row in rows]
    widths: dict[int, int] = {}
    for index, column in enumerate(columns):
        if any(row[index] for row in rows):
            width = max(len(column.title), *(row[index].cell_len for row in drawn))
            widths[index] = min(width, FLEXIBLE_WIDTH_MIN) if column.flexible else width
    console = open_console()
    for index in reversed(list(widths)):
        if columns[index].spare and _least(widths) > console.width:
            del widths[index]
    for index, width in widths.items():
        table.add_column(
            columns[index].title,
            justify="right" if columns[index].right else "left",
            no_wrap=not columns[index].flexible,
            min_width=width,
        )
    for texts in drawn:
        table.add_row(*(texts[index] for index in widths))
    # Where even the fixed columns do not fit, the terminal breaks the line, not the id.
    console.width = max(console.width, _least(widths))
    console.print(table)


def _least(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * len(widths)


def _write_plain(columns: Sequence[Column], rows: list[list[str]]) -> None:
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        sys.stdout.write(GAP.join(padded).rstrip() + "\n")


def _escape(text: str) -> str:
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
