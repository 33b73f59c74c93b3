"""Output of tasks: every byte for a pipe, nothing but text for a terminal."""

from datetime import datetime

import pytest

from holdfast.cli.output import task_output
from holdfast.cli.output.task_output import (
    Output,
    TaskLines,
    with_pending_reasons,
    write_chunks,
    write_time,
)
from holdfast.client.client import Client
from holdfast.wire.status import LogChunk, LogTime
from tests.cli.conftest import Service

RAW = b"\x1b[31mred\x1b[0m \x00\xff \xc3\xa4\r\n50%\r100%\n"


def test_a_pipe_gets_every_byte(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = Output()
    out.write(RAW)
    out.close()
    assert capsysbinary.readouterr().out == RAW


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the output for a terminal."""
    monkeypatch.setattr(task_output, "is_terminal", lambda: True)


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


def a_chunk(
    content: bytes, *, task: int = 0, attempt: int = 0, is_complete: bool = False
) -> LogChunk:
    """Make a stretch of a task's output."""
    return LogChunk(f"7.{task}", attempt, 0, len(content), content, is_complete)


def test_lines_of_several_tasks_are_whole_and_named() -> None:
    lines = TaskLines()
    assert lines.take(a_chunk(b"one\ntw")) == b"[0] one\n"
    assert lines.take(a_chunk(b"other\n", task=12)) == b"[12] other\n"
    assert lines.take(a_chunk(b"o\nopen")) == b"[0] two\n"
    assert lines.take(a_chunk(b"", is_complete=True)) == b"[0] open\n"
    assert lines.take(a_chunk(b"left")) == b""
    assert lines.take_rest() == b"[0] left\n"
    assert lines.take_rest() == b""


def test_a_return_ends_a_line_of_its_task_and_is_no_second_end_before_a_newline() -> None:
    lines = TaskLines()
    assert lines.take(a_chunk(b"50%\r100%\r")) == b"[0] 50%\n"
    assert lines.take(a_chunk(b"\ndone\r\n")) == b"[0] 100%\n[0] done\n"
    assert lines.take(a_chunk(b"last\r", is_complete=True)) == b"[0] last\n"


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    long = b"x" * (task_output.LINE_BYTES_MAX + 1)
    assert TaskLines().take(a_chunk(long)) == b"[0] " + long + b"\n"


def test_a_line_has_the_time_of_its_first_byte() -> None:
    lines = TaskLines(with_task=False, with_times=True)
    first, second, third = 1_800_000_000_007, 1_800_000_001_000, 1_800_000_002_000
    times = [LogTime(10, first), LogTime(16, second)]
    chunk = LogChunk("7.0", 0, 10, 21, b"one\ntwo\nth", False, times)
    assert lines.take(chunk) == b"%bone\n%btwo\n" % (stamp(first), stamp(first))
    chunk = LogChunk("7.0", 0, 21, 26, b"ree\nx", True, [LogTime(21, third)])
    assert lines.take(chunk) == b"%bthree\n%bx\n" % (stamp(second), stamp(third))
    named = TaskLines(with_times=True)
    assert named.take(LogChunk("7.3", 0, 0, 1, b"a", False, [LogTime(0, first)])) == b""
    assert named.take(LogChunk("7.3", 0, 1, 2, b"b", False, [LogTime(1, third)])) == b""
    assert named.take_rest() == b"%b[3] ab\n" % stamp(first)


def stamp(at_ms: int) -> bytes:
    written = write_time(at_ms)
    assert datetime.fromisoformat(written.strip()).timestamp() * 1000 == pytest.approx(at_ms)
    return written.encode()


def test_another_attempt_is_announced_and_the_first_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chunks = [a_chunk(b"a\n", is_complete=True), a_chunk(b"b\n", attempt=1, is_complete=True)]
    write_chunks([a_chunk(b"", attempt=-1), *chunks], has_many_tasks=False)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("a\nb\n", "holdfast: attempt 1 begins\n")
    write_chunks(chunks, has_many_tasks=True)
    shown = capsys.readouterr()
    assert shown.out == "[0] a\n[0] b\n"
    assert shown.err == "holdfast: task 7.0, attempt 1 begins\n"


def test_a_line_says_what_is_left_out_of_a_long_log(capsys: pytest.CaptureFixture[str]) -> None:
    later = LogChunk("7.0", 0, 100, 104, b"end\n", False, [LogTime(100, 0)], left_out=95)
    chunks = [a_chunk(b"begin"), later]
    said = "[95 bytes of output are left out here]\n"
    assert write_chunks(chunks, has_many_tasks=False)
    assert capsys.readouterr().out == f"begin\n{said}end\n"
    assert write_chunks(chunks, has_many_tasks=True)
    assert capsys.readouterr().out == f"[0] begin\n[0] {said}[0] end\n"
    assert write_chunks(chunks, has_many_tasks=False, with_times=True)
    assert capsys.readouterr().out.splitlines()[1:] == [said.strip(), f"{write_time(0)}end"]


def test_what_a_task_waits_for_is_told_once(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", "--queue=nobody")
    waiting = LogChunk(f"{job_id}.0", -1, 0, 0, b"", is_complete=False)
    with Client(service.url) as client:
        assert list(with_pending_reasons(client, [waiting, waiting])) == [waiting, waiting]
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"holdfast: task {job_id}.0 waits: ")
    assert service.run("cancel", job_id).code == 0
