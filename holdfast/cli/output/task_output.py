"""The output of tasks on its way to whoever reads it.

A pipe or a file gets every byte. A terminal gets text: what would steer it is shown, not obeyed.
"""

import codecs
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.cli.output.text import first_line, inert, local_times, state_name
from holdfast.cli.output.write import is_terminal, remark
from holdfast.model.work.log_limits import describe_left_out

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
    """Output as whole lines, each with the index of its task before it, or when it was stored."""

    def __init__(self, *, with_task: bool = True, with_times: bool = False) -> None:
        self._with_task = with_task
        self._with_times = with_times
        # Of each task the line that has no end yet, and when that began.
        self._open: dict[str, tuple[bytes, int | None]] = {}

    def take(self, chunk: "LogChunk") -> bytes:
        """Give the lines that have become whole; the end of a log ends its open line."""
        *pieces, (last, at) = self._cut(chunk)
        written = [self._take(chunk.task_id, *piece, is_last=False) for piece in pieces]
        return b"".join([*written, self._take(chunk.task_id, last, at, is_last=chunk.is_complete)])

    def take_rest(self) -> bytes:
        """Give the lines that were left open."""
        rest = b"".join(self._write(task_id, *line) for task_id, line in self._open.items())
        self._open.clear()
        return rest

    def _cut(self, chunk: "LogChunk") -> list[tuple[bytes, int | None]]:
        """Cut a chunk where it was stored at another time."""
        times = chunk.times if self._with_times else []
        if not times:
            return [(chunk.content, None)]
        edges = [time.offset - chunk.offset for time in times] + [len(chunk.content)]
        return [
            (chunk.content[begin:end], time.stored_at_ms)
            for time, (begin, end) in zip(times, pairwise(edges), strict=True)
        ]

    def _take(self, task_id: str, content: bytes, at: int | None, *, is_last: bool) -> bytes:
        begun, begun_at = self._open.pop(task_id, (b"", at))
        text, held = begun + content, b""
        if text.endswith(b"\r") and not is_last:
            text, held = text[:-1], b"\r"  # half of a line's end, perhaps
        *lines, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if rest and (is_last or len(rest) > LINE_BYTES_MAX):
            lines, rest = [*lines, rest], b""
        if rest + held:
            self._open[task_id] = rest + held, at if lines else begun_at
        times = [begun_at, *[at] * len(lines)]
        return b"".join(self._write(task_id, *line) for line in zip(lines, times, strict=False))

    def _write(self, task_id: str, line: bytes, at: int | None) -> bytes:
        task = b"[%b] " % task_id.partition(".")[2].encode() if self._with_task else b""
        return b"%b%b%b\n" % (b"" if at is None else write_time(at).encode(), task, line)


def write_time(at_ms: int) -> str:
    """Write when a line was stored, in the time of this machine, to stand before it."""
    at = datetime.fromtimestamp(at_ms / 1000)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03} "


def write_chunks(
    chunks: Iterable["LogChunk"], *, has_many_tasks: bool, with_times: bool = False
) -> bool:
    """Write output as it comes, and say where a task begins another attempt.

    Tells whether there was any output.
    """
    output = Output()
    is_whole = not has_many_tasks and not with_times
    lines = None if is_whole else TaskLines(with_task=has_many_tasks, with_times=with_times)
    last: dict[str, int] = {}
    has_output = False
    try:
        for chunk in with_left_out(chunks):
            if 0 <= last.get(chunk.task_id, -1) < chunk.attempt:
                subject = f"task {chunk.task_id}, " if has_many_tasks else ""
                remark(f"holdfast: {subject}attempt {chunk.attempt} begins")
            last[chunk.task_id] = chunk.attempt
            output.write(chunk.content if lines is None else lines.take(chunk))
            has_output = has_output or bool(chunk.content)
    finally:
        if lines is not None:
            output.write(lines.take_rest())
        output.close()
    return has_output


def with_left_out(chunks: Iterable["LogChunk"]) -> Iterator["LogChunk"]:
    """Pass chunks on; where the middle of a long log is not kept, a chunk says so in a line."""
    import msgspec

    last: dict[tuple[str, int], bytes] = {}
    for chunk in chunks:
        key = chunk.task_id, chunk.attempt
        if chunk.left_out:
            said = describe_left_out(chunk.left_out, before=last.get(key, b""))
            yield msgspec.structs.replace(chunk, content=said, times=[], is_complete=False)
        yield chunk
        last[key] = chunk.content[-1:] or last.get(key, b"")


def with_reasons(
    client: "Client", chunks: Iterable["LogChunk"], *, has_many_tasks: bool
) -> Iterator["LogChunk"]:
    """Pass chunks on; write what a task waits for, and how each attempt but the last ended."""
    waiting = with_pending_reasons(client, chunks)
    return with_ends(client, waiting, has_many_tasks=has_many_tasks)


def with_pending_reasons(client: "Client", chunks: Iterable["LogChunk"]) -> Iterator["LogChunk"]:
    """Pass chunks on; write what a task waits for as long as it has not begun, when it changes."""
    last: str | None = None
    for chunk in chunks:
        if chunk.attempt < 0:
            reason = client.tasks.get(chunk.task_id).pending_reason
            if reason and reason != last:
                remark(f"holdfast: task {chunk.task_id} waits: {local_times(reason)}")
                last = reason
        yield chunk


def with_ends(
    client: "Client", chunks: Iterable["LogChunk"], *, has_many_tasks: bool
) -> Iterator["LogChunk"]:
    """Pass chunks on; write how each attempt ended that is not the last of its task.

    Of several tasks, that is looked up where the next attempt begins. Of one, the first attempts
    may have ended before anybody looked.
    """
    last: dict[str, int] = {}
    for chunk in chunks:
        before = last.get(chunk.task_id, -1)
        if not has_many_tasks:
            for missed in range(before + 1, chunk.attempt):
                remark_end(client, chunk.task_id, missed)
        elif 0 <= before < chunk.attempt:
            remark_end(client, chunk.task_id, before, subject=f"task {chunk.task_id}, ")
        last[chunk.task_id] = chunk.attempt
        yield chunk
        if not has_many_tasks and chunk.is_complete and chunk.attempt >= 0:
            remark_end(client, chunk.task_id, chunk.attempt)


def remark_end(client: "Client", task_id: str, number: int, *, subject: str = "") -> None:
    """Write how an attempt ended, unless its task has ended with it."""
    task = client.tasks.get(task_id)
    if task.finished_at_ms is not None and task.current_attempt_id == number:
        return
    for attempt in task.attempts or ():
        if attempt.attempt_id == number:
            state = state_name(attempt.state).replace("_", " ")
            reason = f": {first_line(attempt.error)}" if attempt.error else ""
            remark(f"holdfast: {subject}attempt {number} has ended: {state}{reason}")


def read_chunks(
    client: "Client",
    task_id: str,
    *,
    attempt: int | None,
    follow: bool,
    tail: int | None = None,
) -> Iterator["LogChunk"]:
    """Read the output of one attempt, the latest if none is named; to follow is until it ends."""
    offset = 0
    while True:
        chunk = client.tasks.read_log(
            task_id, attempt=attempt, offset=offset, follow=follow, tail=tail
        )
        # A task that nobody has claimed has no attempt to stay with yet.
        if chunk.attempt >= 0:
            attempt, tail = chunk.attempt, None
        offset = chunk.next_offset
        yield chunk
        if chunk.is_complete or (not follow and not chunk.content):
            return


def follow_task(client: "Client", task_id: str, *, tail: int | None = None) -> Iterator["LogChunk"]:
    """Read the output of every attempt from now on, until the task has finished."""
    attempt: int | None = None
    while True:
        for chunk in read_chunks(client, task_id, attempt=attempt, follow=True, tail=tail):
            yield chunk
        tail = None  # of later attempts, all that they write is new
        last = chunk.attempt
        while True:
            task = client.tasks.get(task_id)
            if task.current_attempt_id > last:
                attempt = last + 1
                break
            if task.finished_at_ms is not None:
                return
            time.sleep(LOOK_SECONDS)
