"""Output of tasks: every byte for a pipe, nothing but text for a terminal."""

import io

import pytest

from holdfast.cli import output
from holdfast.cli.output import Output

RAW = b"\x1b[31mred\x1b[0m \x00\xff \xc3\xa4\r\n50%\r100%\n"


class Stdout(io.TextIOWrapper):
    """Standard output that keeps its bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)

    def getvalue(self) -> bytes:
        """Give what was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


@pytest.fixture
def stdout(monkeypatch: pytest.MonkeyPatch) -> Stdout:
    """Standard output, kept."""
    kept = Stdout()
    monkeypatch.setattr("sys.stdout", kept)
    return kept


def test_a_pipe_gets_every_byte(stdout: Stdout) -> None:
    out = Output()
    out.write(RAW)
    out.close()
    assert stdout.getvalue() == RAW


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the output for a terminal."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_text_that_does_not_steer_it(stdout: Stdout) -> None:
    out = Output()
    out.write(RAW)
    out.close()
    shown = stdout.getvalue().decode()
    assert shown == "\\x1b[31mred\\x1b[0m \\x00\\xff ä\n50%\n100%\n"


@pytest.mark.usefixtures("terminal")
def test_a_character_cut_in_two_is_put_together_again(stdout: Stdout) -> None:
    out = Output()
    for byte in "ä🎉".encode():
        out.write(bytes([byte]))
    out.close()
    assert stdout.getvalue().decode() == "ä🎉\n"


@pytest.mark.usefixtures("terminal")
def test_an_open_line_is_closed_once(stdout: Stdout) -> None:
    out = Output()
    out.write(b"no end")
    out.write(b"")
    out.close()
    assert stdout.getvalue() == b"no end\n"
