"""A call in a thread that can be interrupted between two steps of Python code."""

import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.worker.running.function import TaskStopped

Answer = TypeVar("Answer")
# By item it is a copy of our own: others may want to declare its arguments otherwise.
_set_exception = ctypes.pythonapi["PyThreadState_SetAsyncExc"]


class InterruptibleCall(Generic[Answer]):
    """Makes one call; any thread may interrupt it, and hits nothing that runs after it."""

    __slots__ = ("_call", "_lock", "_thread_id", "is_interrupted")

    def __init__(self, call: Callable[[], Answer]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self.is_interrupted = False

    def __call__(self) -> tuple[Answer | None, BaseException | None]:
        """Make the call; what it raised is an answer too."""
        answer: tuple[Answer | None, BaseException | None] = None, TaskStopped()
        try:
            try:
                with self._lock:
                    if self.is_interrupted:
                        return answer
                    self._thread_id = threading.get_ident()
                answer = self._call(), None
            except BaseException as error:  # noqa: BLE001 - whatever user code raises counts
                answer = None, error
            self._withdraw()
        except TaskStopped:  # landed after the end of the call
            self._withdraw()
        return answer

    def interrupt(self) -> None:
        """Raise TaskStopped in the thread, as soon as it runs Python code again."""
        with self._lock:
            self.is_interrupted = True
            if self._thread_id is not None:
                _set_exception(ctypes.c_ulong(self._thread_id), ctypes.py_object(TaskStopped))

    def _withdraw(self) -> None:
        """Be interrupted no more; what is pending lands here, and not in the next call."""
        with self._lock:
            self._thread_id = None
        _pause()


def _pause() -> None:
    """Let an exception land that was set from outside: it does where a function begins.

    To clear it instead would leave the interpreter looking for it at every step from then on.
    """
