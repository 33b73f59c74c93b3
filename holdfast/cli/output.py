"""The output of tasks on its way to whoever reads it.

A pipe or a file gets every byte. A terminal gets text: what would steer it is shown, not obeyed.
"""

import codecs
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.cli.show import is_terminal
from holdfast.cli.text import inert

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.wire.status import LogChunk

LOOK_SECONDS = 0.3


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


def read_chunks(
    client: "Client", task_id: str, *, attempt: int | None, follow: bool
) -> Iterator["LogChunk"]:
    """Read the output of one attempt, the latest if none is named; to follow is until it ends."""
    from holdfast.client import admin

    offset = 0
    while True:
        chunk = admin.read_log(client, task_id, attempt=attempt, offset=offset, follow=follow)
        # A task that nobody has claimed has no attempt to stay with yet.
        if chunk.attempt >= 0:
            attempt = chunk.attempt
        offset = chunk.next_offset
        yield chunk
        if chunk.is_complete or (not follow and not chunk.content):
            return


def follow_task(client: "Client", task_id: str) -> Iterator["LogChunk"]:
    """Read the output of every attempt from now on, until the task has finished."""
    from holdfast.client import admin

    attempt: int | None = None
    while True:
        for chunk in read_chunks(client, task_id, attempt=attempt, follow=True):
            yield chunk
        last = chunk.attempt
        while True:
            task = admin.get_task(client, task_id)
            if task.current_attempt_id > last:
                attempt = last + 1
                break
            if task.finished_at_ms is not None:
                return
            time.sleep(LOOK_SECONDS)
