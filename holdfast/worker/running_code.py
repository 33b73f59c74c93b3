"""What runs within a worker's process, in memory that whoever forked it can read after its death.

A process that crashes has no last word: what is known of its end is what it noted before.
"""

import mmap
from collections import deque
from struct import Struct

ATTEMPTS_MAX = 100  # more may run; a note of some is enough to find the culprit
FIELD_BYTES = 192
_field = Struct(f"{FIELD_BYTES}s")
_WORKER_ID, _PLACED_ID, _LEFT, _DEADLINE, _ATTEMPTS = range(5)


class RunningCode:
    """Notes of one process about itself. Any thread may call any method."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, (_ATTEMPTS + ATTEMPTS_MAX) * FIELD_BYTES)
        self._free = deque(range(_ATTEMPTS, _ATTEMPTS + ATTEMPTS_MAX))

    def note_worker(self, worker_id: str) -> None:
        """Note the incarnation that this process has registered as."""
        self._write(_WORKER_ID, worker_id)

    def note_placed(self, worker_id: str) -> None:
        """Note the same of the half that is given placed work."""
        self._write(_PLACED_ID, worker_id)

    def note_deadline(self, deadline: float | None, reason: str) -> None:
        """Note when the watchdog will kill this process, and why."""
        self._write(_DEADLINE, "" if deadline is None else f"{deadline:.6f} {reason}")

    def leave(self) -> None:
        """Note that this process ends by its own will."""
        self._write(_LEFT, "left")

    def note_begin(self, task_id: str, attempt: int) -> int | None:
        """Note that code of an attempt runs here; returns where, or None if there is no room."""
        try:
            index = self._free.popleft()
        except IndexError:
            return None
        self._write(index, f"task {task_id} attempt {attempt}")
        return index

    def note_end(self, index: int | None) -> None:
        """Note that code of an attempt runs here no more."""
        if index is not None:
            self._memory[index * FIELD_BYTES] = 0
            self._free.append(index)

    @property
    def worker_id(self) -> str:
        """The incarnation that the process had registered as; empty if it had not."""
        return self._read(_WORKER_ID)

    @property
    def placed_id(self) -> str:
        """The same of the half that was given placed work."""
        return self._read(_PLACED_ID)

    @property
    def has_left(self) -> bool:
        """Whether the process has ended by its own will."""
        return bool(self._read(_LEFT))

    def find_overrun(self, now: float) -> str | None:
        """Tell why the watchdog had to kill the process, if its deadline has passed."""
        deadline, _, reason = self._read(_DEADLINE).partition(" ")
        return reason if deadline and float(deadline) <= now else None

    def list_running(self) -> list[str]:
        """List the attempts whose code was in the process, a hundred at most."""
        found = (self._read(_ATTEMPTS + rank) for rank in range(ATTEMPTS_MAX))
        return [text for text in found if text]

    def _write(self, index: int, text: str) -> None:
        _field.pack_into(self._memory, index * FIELD_BYTES, text.encode())

    def _read(self, index: int) -> str:
        (content,) = _field.unpack_from(self._memory, index * FIELD_BYTES)
        return content.partition(b"\0")[0].decode(errors="replace")  # type: ignore[no-any-return]
