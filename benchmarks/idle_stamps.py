"""A holdfast process that notes when a task passes, for `./run bench idle`.

    python -m benchmarks.idle_stamps FILE server ...

Each step that is passed is a line of FILE: its name, and this machine's monotonic clock in
nanoseconds. A line costs some three microseconds.
"""

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable
from typing import Any


class Stamps:
    """A file to which the processes of one run write when they pass which step."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, step: str) -> None:
        """Note that a step is passed now."""
        os.write(self._file, b"%s %d\n" % (step.encode(), time.monotonic_ns()))

    def around(
        self, owner: Any, name: str, *, before: str | None = None, after: str | None = None
    ) -> None:
        """Note when a function of a class or module begins, and when it has returned."""
        plain: Callable[..., Any] = getattr(owner, name)

        def begin() -> None:
            if before is not None:
                self.note(before)

        def end() -> None:
            if after is not None:
                self.note(after)

        @functools.wraps(plain)
        def run(*arguments: Any, **named: Any) -> Any:
            begin()
            answer = plain(*arguments, **named)
            end()
            return answer

        @functools.wraps(plain)
        async def run_async(*arguments: Any, **named: Any) -> Any:
            begin()
            answer = await plain(*arguments, **named)
            end()
            return answer

        setattr(owner, name, run_async if inspect.iscoroutinefunction(plain) else run)


def note_client(stamps: Stamps) -> None:
    """Note what a client passes."""
    from aiohttp import ClientSession

    stamps.around(ClientSession, "_request", before="client sends", after="client has the answer")


def note_server(stamps: Stamps) -> None:
    """Note what a server passes."""
    from holdfast.api import route
    from holdfast.api.routes.submitting import submissions
    from holdfast.operations.submitting import at_once
    from holdfast.services.waking.doorbell import Listener
    from holdfast.services.writers import Writers

    stamps.around(route.BoundRoute, "_read", before="server reads a request")
    stamps.around(Writers, "submit", before="submission begins")
    stamps.around(submissions, "new_job_status", before="server answers the submission")
    stamps.around(route, "_send", before="server answers")
    # Not what the runtime hears: it also hears of the ends of other tasks.
    stamps.around(at_once, "_store", after="submission is committed")
    stamps.around(Listener, "give", after="claim is given")


def note_worker(stamps: Stamps) -> None:
    """Note what a worker passes."""
    from holdfast.worker.claimed.claims import Claims
    from holdfast.worker.claimed.function_runner import FunctionRunner
    from holdfast.worker.claimed.running_attempts import RunningAttempts

    stamps.around(Claims, "_read", before="worker has the answer")
    stamps.around(RunningAttempts, "begin", before="worker begins")
    stamps.around(FunctionRunner, "begin", before="function is handed on")
    stamps.around(FunctionRunner, "_begin_coroutines", before="user loop takes it")
    stamps.around(FunctionRunner, "_enter", after="function begins")


def main() -> None:
    """Run holdfast as the arguments say, with its steps noted."""
    stamps = Stamps(sys.argv.pop(1))
    (note_server if sys.argv[1] == "server" else note_worker)(stamps)
    from holdfast.cli.app import main as run_holdfast

    sys.exit(run_holdfast())


if __name__ == "__main__":
    main()
