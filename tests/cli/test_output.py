"""Output of tasks: every byte for a pipe, nothing but text for a terminal."""

import pytest

from holdfast.cli import output
from holdfast.cli.output import Output

RAW = b"\x1b[31mred\x1b[0m \x00\xff \xc3\xa4\r\n50%\r100%\n"


def test_a_pipe_gets_every_byte(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = Output()
    out.write(RAW)
    out.close()
    assert capsysbinary.readouterr().out == RAW


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the output for a terminal."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_text_that_does_not_steer_it(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    out = Output()
    out.write(RAW)
    out.close()
    shown = capsysbinary.readouterr().out.decode()
    assert shown == "\\x1b[31mred\\x1b[0m \\x00\\xff ä\n50%\n100%\n"


@pytest.mark.usefixtures("terminal")
def test_a_character_cut_in_two_is_put_together_again(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    out = Output()
    for byte in "ä🎉".encode():
        out.write(bytes([byte]))
    out.close()
    assert capsysbinary.readouterr().out.decode() == "ä🎉\n"


@pytest.mark.usefixtures("terminal")
def test_an_open_line_is_closed_once(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = Output()
    out.write(b"no end")
    out.write(b"")
    out.close()
    assert capsysbinary.readouterr().out == b"no end\n"
