"""The output of tasks on its way to whoever reads it.

A pipe or a file gets every byte. A terminal gets text: what would steer it is shown, not obeyed.
"""

import codecs
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.cli.output.text import inert
from holdfast.cli.output.write import is_terminal, remark

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.wire.status import LogChunk

LOOK_SECONDS = 0.3
LINE_BYTES_MAX = 1 << 16


class Output:
    """Standard output, for bytes of others."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._is_terminal = is_terminal()
        self._line_is_open = False

    def write(self, content: bytes) -> None:
        """Write output as it came, or made inert for a terminal."""
        if not self._is_terminal:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            return
        # Progress bars return to the start of their line: each state of theirs gets a line here.
        text = self._decoder.decode(content).replace("\r\n", "\n").replace("\r", "\n")
        sys.stdout.write(inert(text, keep="\n\t"))
        sys.stdout.flush()
        if text:
            self._line_is_open = not text.endswith("\n")

    def close(self) -> None:
        """End a line that was left open, so that the prompt stands on its own."""
        if self._line_is_open:
            sys.stdout.write("\n")


class TaskLines:
    """The output of several tasks as whole lines, each with the index of its task before it."""

    def __init__(self) -> None:
        self._open: dict[str, bytes] = {}

    def take(self, chunk: "LogChunk") -> bytes:
        """Give the lines that have become whole; the end of a log ends its open line."""
        text, held = self._open.pop(chunk.task_id, b"") + chunk.content, b""
        if text.endswith(b"\r") and not chunk.is_complete:
            text, held = text[:-1], b"\r"  # half of a line's end, perhaps
        *lines, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if rest and (chunk.is_complete or len(rest) > LINE_BYTES_MAX):
            lines, rest = [*lines, rest], b""
        if rest + held:
            self._open[chunk.task_id] = rest + held
        return b"".join(_write_line(chunk.task_id, line) for line in lines)

    def take_rest(self) -> bytes:
        """Give the lines that were left open."""
        rest = b"".join(_write_line(task_id, line) for task_id, line in self._open.items())
        self._open.clear()
        return rest


def write_chunks(chunks: Iterable["LogChunk"], *, has_many_tasks: bool) -> None:
    """Write output as it comes, and say where a task begins another attempt."""
    output = Output()
    lines = TaskLines() if has_many_tasks else None
    last: dict[str, int] = {}
    try:
        for chunk in chunks:
            if 0 <= last.get(chunk.task_id, -1) < chunk.attempt:
                subject = f"task {chunk.task_id}, " if has_many_tasks else ""
                remark(f"holdfast: {subject}attempt {chunk.attempt} begins")
            last[chunk.task_id] = chunk.attempt
            output.write(chunk.content if lines is None else lines.take(chunk))
    finally:
        if lines is not None:
            output.write(lines.take_rest())
        output.close()


def with_pending_reasons(client: "Client", chunks: Iterable["LogChunk"]) -> Iterator["LogChunk"]:
    """Pass chunks on; write what a task waits for as long as it has not begun, when it changes."""
    last: str | None = None
    for chunk in chunks:
        if chunk.attempt < 0:
            reason = client.tasks.get(chunk.task_id).pending_reason
            if reason and reason != last:
                remark(f"holdfast: task {chunk.task_id} waits: {reason}")
                last = reason
        yield chunk


def read_chunks(
    client: "Client", task_id: str, *, attempt: int | None, follow: bool
) -> Iterator["LogChunk"]:
    """Read the output of one attempt, the latest if none is named; to follow is until it ends."""
    offset = 0
    while True:
        chunk = client.tasks.read_log(task_id, attempt=attempt, offset=offset, follow=follow)
        # A task that nobody has claimed has no attempt to stay with yet.
        if chunk.attempt >= 0:
            attempt = chunk.attempt
        offset = chunk.next_offset
        yield chunk
        if chunk.is_complete or (not follow and not chunk.content):
            return


def follow_task(client: "Client", task_id: str) -> Iterator["LogChunk"]:
    """Read the output of every attempt from now on, until the task has finished."""
    attempt: int | None = None
    while True:
        for chunk in read_chunks(client, task_id, attempt=attempt, follow=True):
            yield chunk
        last = chunk.attempt
        while True:
            task = client.tasks.get(task_id)
            if task.current_attempt_id > last:
                attempt = last + 1
                break
            if task.finished_at_ms is not None:
                return
            time.sleep(LOOK_SECONDS)


def _write_line(task_id: str, line: bytes) -> bytes:
    return b"[%b] %b\n" % (task_id.partition(".")[2].encode(), line)
