"""A runner of functions, and what it is given to run."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from types import ModuleType
from typing import Any

from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.function_runner import FunctionCall, FunctionRunner
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.running.function import Functions
from holdfast.worker.running_code import RunningCode
from tests.worker.claims import an_attempt

NOWHERE = "http://127.0.0.1:1"
PROCESS = Outcome("failed", error="needs a process")


class Inside:
    """A runner with one thread, and what it is given to run."""

    def __init__(self, module: ModuleType) -> None:
        self.runner = FunctionRunner(
            NOWHERE,
            threads_max=1,
            functions=Functions(),
            code=RunningCode(),
            write=self._write,
            on_end=self._end,
            on_process=lambda call: self._ends[call.attempt].set_result(PROCESS),
            on_unblocked=self._note_unblocked,
        )
        self.times_unblocked = 0
        self.written = b""
        self.latest: FunctionCall | None = None
        self._module = module
        self._ends: dict[Attempt, asyncio.Future[Outcome]] = {}

    def begin(
        self, function: Callable[..., Any], *args: Any, **job: Any
    ) -> tuple[FunctionCall, asyncio.Future[Outcome]]:
        """Begin to run a function as an attempt."""
        name = f"f{id(function)}"
        setattr(self._module, name, function)
        known = {"entrypoint": Entrypoint(function=f"{self._module.__name__}:{name}", args=[*args])}
        attempt = an_attempt(**known | job)
        self._ends[attempt] = asyncio.get_running_loop().create_future()
        self.latest = call = FunctionCall(attempt, copy_context())
        self.runner.begin([call])
        return call, self._ends[attempt]

    async def run(self, function: Callable[..., Any], *args: Any) -> Outcome:
        """Run a function to its end."""
        return await self.begin(function, *args)[1]

    def stop(self, call: FunctionCall, mode: Any) -> None:
        """Ask an attempt to stop, as its worker does."""
        assert call.attempt.ask_to_stop(mode, boot_clock())
        self.runner.stop(call, mode)

    def _write(self, attempt: Attempt, content: bytes) -> None:
        assert attempt in self._ends
        self.written += content

    def _end(self, attempt: Attempt, answer: Outcome | BaseException) -> None:
        if isinstance(answer, Outcome):
            self._ends[attempt].set_result(answer)
        else:
            self._ends[attempt].set_exception(answer)

    def _note_unblocked(self) -> None:
        self.times_unblocked += 1
