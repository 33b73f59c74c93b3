"""Threads that make calls: a call that waits for something does so in a thread of its own.

Calls that are short share one. Whoever takes a call while others wait wakes one more thread, or
starts it; that one comes as soon as the call lets go of the interpreter, and finds what is left.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue


class CallThreads:
    """Makes calls in the order in which they come, up to `threads_max` at a time."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._lock = threading.Lock()
        # Under the lock: what waits, the threads there are, and how many of them wait for calls.
        self._waiting: deque[Callable[[], object]] = deque()
        self._threads_count = 0
        self._idle_count = 0
        # Whether a thread is on its way to what waits: then no other need be.
        self._is_coming = False
        self._is_closed = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def submit(self, calls: Sequence[Callable[[], object]]) -> None:
        """Have calls made, none of which may raise anything."""
        with self._lock:
            self._waiting.extend(calls)
            is_started = self._bring_one()
        if is_started:
            self._start()

    def close(self) -> None:
        """Let the threads go: the idle ones now, the others after their calls."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            for _ in range(self._idle_count):
                self._bell.put(None)

    def _bring_one(self) -> bool:
        """See that a thread comes for what waits; whether it is one that has to be started."""
        if not self._waiting or self._is_coming or self._is_closed:
            return False
        if self._idle_count:
            self._idle_count -= 1
            self._is_coming = True
            self._bell.put(None)
            return False
        if self._threads_count >= self._threads_max:
            return False
        self._threads_count += 1
        self._is_coming = True
        return True

    def _start(self) -> None:
        name = f"{self._name}_{self._threads_count - 1}"
        threading.Thread(target=self._run, name=name).start()

    def _run(self) -> None:
        has_come = True
        while True:
            with self._lock:
                if has_come:
                    self._is_coming = has_come = False
                if self._is_closed:
                    return
                call = self._waiting.popleft() if self._waiting else None
                if call is None:
                    self._idle_count += 1
                is_started = self._bring_one()
            if call is None:
                self._bell.get()
                has_come = True
                continue
            if is_started:
                self._start()
            call()
            del call  # what it holds is not kept until there is another one
