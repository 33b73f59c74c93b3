"""How answers are shown: whole and plain through a pipe, cut to fit on a terminal."""

import json
from collections.abc import Sequence

import pytest

from holdfast.cli.output import write
from holdfast.cli.output.write import (
    Column,
    State,
    remark,
    state,
    write_fields,
    write_json,
    write_line,
    write_table,
    write_title,
)

COLUMNS = (Column("id", right=True), Column("job", flexible=True), Column("state"), Column("none"))
ROWS: Sequence[Sequence[str]] = (
    ("4182.12", "a name that goes on and on for longer than a line", State("running"), ""),
    ("7", "\x1b[2Jevil", State("failed"), ""),
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the test's output a terminal of 40 columns, without colours."""
    monkeypatch.setattr(write, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")


def test_a_pipe_gets_every_row_whole_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(COLUMNS, ROWS)
    assert capsys.readouterr().out == (
        "     id  job                                                state    none\n"
        "4182.12  a name that goes on and on for longer than a line  running\n"
        "      7  \\x1b[2Jevil                                        failed\n"
    )


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(COLUMNS, ROWS)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "     id  job                   state",
        "4182.12  a name that goes on…   running",
        "      7  \\x1b[2Jevil            failed",
    ]


@pytest.mark.usefixtures("terminal")
def test_what_can_be_spared_is_left_out_where_there_is_no_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = [Column("id"), Column("a", spare=True), Column("b", spare=True), Column("last")]
    write_table(columns, [("x" * 15, "y" * 10, "z" * 10, "end")])
    titles, _ = capsys.readouterr().out.splitlines()
    assert titles.split() == ["id", "a", "last"]
    write_table(columns, [("x" * 10, "y", "z", "end")])
    titles, _ = capsys.readouterr().out.splitlines()
    assert titles.split() == ["id", "a", "b", "last"]


@pytest.mark.usefixtures("terminal")
def test_an_id_is_never_cut_however_narrow_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    write_table(COLUMNS, [("123456789.123456789", "name", State("dead_lettered"), "")])
    line = capsys.readouterr().out.splitlines()[1]
    assert "123456789.123456789" in line
    assert "dead_lettered" in line


def test_fields_stand_under_each_other_without_the_empty_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_fields({"a": "1", "nothing": "", "longer": "first\n\x1bsecond\n"})
    assert capsys.readouterr().out == "a       1\nlonger  first\n        \\x1bsecond\n"


@pytest.mark.usefixtures("terminal")
def test_fields_and_titles_on_a_terminal_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    write_title("Job 7  \x1b[2J", State("running"))
    write_fields({"a": "x" * 60})
    write_line("one", "", State("killed"))
    assert capsys.readouterr().out == (
        f"Job 7  \\x1b[2J   running \na  {'x' * 60}\none   killed \n"
    )


def test_a_state_that_is_not_known_is_shown_all_the_same() -> None:
    assert write.cell_text(State("new\x1bstate")).plain == " new\\x1bstate "
    assert state("TASK_STATE_RUNNING") == State("running") == "running"


def test_json_is_one_document_that_no_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": "\x1b[2J \x9b31m \u202e ü", "list": [1, 2]}
    write_json(document)
    text = capsys.readouterr().out
    assert json.loads(text) == document
    assert text.count("\n") > 1
    for hostile in ("\x1b", "\x9b", "\u202e"):
        assert hostile not in text
    write_json(document, indented=False)
    assert capsys.readouterr().out.count("\n") == 1


def test_remarks_are_no_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    remark("there is\x1b more")
    assert capsys.readouterr() == ("", "there is\\x1b more\n")
