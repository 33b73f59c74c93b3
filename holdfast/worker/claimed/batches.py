"""Call a function once for many tasks: what was claimed is gathered, and each ends by itself.

calls ── add ──► gathered, by function ── full, or its time is over ──► one call in a thread
                        │ stopped                                          │ stopped, one of them
                        └──────────► ended ◄────────── each its own ───────┴─ at once, alone
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.client.context import current
from holdfast.errors import PermanentError
from holdfast.worker.claimed.call_threads import CallThreads
from holdfast.worker.claimed.interruptible import InterruptibleCall
from holdfast.worker.claimed.output_routing import keep_output
from holdfast.worker.running.attempt_outcome import HANDED_BACK, Outcome
from holdfast.worker.running.batch import read_answers
from holdfast.worker.running.function import BadCall, TaskStopped
from holdfast.worker.running_code import RunningCode

if TYPE_CHECKING:
    from holdfast.worker.claimed.attempt import Attempt
    from holdfast.worker.claimed.function_runner import FunctionCall

SLICE_SECONDS = 0.2
End = Callable[["FunctionCall", Outcome | BaseException], None]


class RunningBatch:
    """One call of a function for many tasks; those that have not ended yet are `left`."""

    def __init__(self, calls: Sequence["FunctionCall"]) -> None:
        self.calls = calls
        self.left = set(calls)
        self.begun: list[FunctionCall] = []
        self.in_thread: InterruptibleCall[dict[FunctionCall, Outcome]] | None = None
        self._lock = threading.Lock()

    def take(self, call: "FunctionCall") -> bool:
        """Take a task out, to end it; False if it has ended before."""
        with self._lock:
            if call not in self.left:
                return False
            self.left.discard(call)
            return True


class Batches:
    """Gathers calls on the loop that this was made on, and makes them in threads."""

    def __init__(
        self,
        threads: CallThreads,
        *,
        code: RunningCode,
        prepare: Callable[["FunctionCall"], None],
        open_loop: Callable[[], asyncio.AbstractEventLoop],
        write: Callable[["Attempt", bytes], None],
        on_end: End,
    ) -> None:
        self._threads = threads
        self._code = code
        self._prepare = prepare
        self._open_loop = open_loop
        self._write = write
        self._end = on_end
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[str, list[FunctionCall]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: dict[FunctionCall, RunningBatch] = {}

    def add(self, call: "FunctionCall") -> None:
        """Gather a call with others of its function, which has been found."""
        assert call.callee is not None
        assert call.callee.batch is not None
        # What was pickled is a function of its own for each job.
        key = call.attempt.job.entrypoint.function or f"pickle of {call.attempt.task_id}"
        gathered = self._gathered.setdefault(key, [])
        gathered.append(call)
        if len(gathered) >= call.callee.batch.tasks_max:
            self._begin(key)
        elif len(gathered) == 1:
            timer = self._loop.call_later(call.callee.batch.within, self._begin, key)
            self._timers[key] = timer

    def has(self, call: "FunctionCall") -> bool:
        """Tell whether a call is gathered here, or runs with others."""
        return call in self._running or any(call in calls for calls in self._gathered.values())

    def interrupt(self, call: "FunctionCall") -> None:
        """Have one task end. What others wait for goes on, unless its time is over."""
        call.is_interrupted = True
        running = self._running.get(call)
        if running is None:
            self._withdraw(call)
            return
        if call.attempt.stop == "timeout":
            for other in list(running.left):  # they are handed back
                other.is_interrupted = True
        elif call.attempt.stop is not None and running.take(call):
            self._forget(call, call.describe_error(TaskStopped()))
        assert running.in_thread is not None
        if all(other.is_interrupted for other in list(running.left)):
            running.in_thread.interrupt()

    def close(self) -> None:
        """Begin nothing more."""
        for timer in self._timers.values():
            timer.cancel()

    def _withdraw(self, call: "FunctionCall") -> None:
        for key, gathered in self._gathered.items():
            if call in gathered:
                gathered.remove(call)
                if not gathered:
                    del self._gathered[key]
                    self._timers.pop(key).cancel()
                self._end(call, call.describe_error(TaskStopped()))
                return

    def _begin(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        calls = self._gathered.pop(key)
        running = RunningBatch(calls)
        self._running.update(dict.fromkeys(calls, running))
        assert calls[0].callee is not None
        loop = self._open_loop() if calls[0].callee.is_async else None
        running.in_thread = InterruptibleCall(partial(self._call, running, loop))
        # In a context of its own: each attempt keeps the one that it has.
        work = partial(copy_context().run, self._run, running)
        self._threads.submit([work])

    def _run(self, running: RunningBatch) -> None:
        """Run a batch in a thread; what breaks it is told to each."""
        noted = [self._code.note_begin(*call.attempt.key) for call in running.calls]
        assert running.in_thread is not None
        outcomes, error = running.in_thread()
        for index in noted:
            self._code.note_end(index)
        for call in running.calls:
            if not running.take(call):
                continue
            if outcomes is None:
                assert error is not None
                self._forget(call, self._describe(call, error))
            else:
                self._forget(call, outcomes[call])

    def _call(
        self, running: RunningBatch, loop: asyncio.AbstractEventLoop | None
    ) -> dict["FunctionCall", Outcome]:
        outcomes: dict[FunctionCall, Outcome] = {}
        items = []
        for call in running.calls:
            if call.is_interrupted or not call.begin():
                outcomes[call] = self._describe(call, TaskStopped())
                continue
            try:
                self._prepare(call)
            except BadCall as problem:
                outcomes[call] = problem.outcome
                continue
            items.append([*call.args, *call.kwargs.values()][0])
            running.begun.append(call)
            call.has_begun = True
        if not running.begun:
            return outcomes
        try:
            answers = self._ask(running, items, loop)
        except Exception as error:  # noqa: BLE001 - whatever user code raises is its outcome
            return outcomes | {call: self._describe(call, error) for call in running.begun}
        for call, answer in zip(running.begun, answers, strict=True):
            if isinstance(answer, BaseException):
                outcomes[call] = self._describe(call, answer)
            else:
                outcomes[call] = call.describe_value(answer)
        return outcomes

    def _ask(
        self,
        running: RunningBatch,
        items: list[Any],
        loop: asyncio.AbstractEventLoop | None,
    ) -> list[Any]:
        """Call the function; what it writes is in the output of each task."""
        callee = running.calls[0].callee
        assert callee is not None
        attempts = [call.attempt for call in running.begun]

        def write(content: bytes) -> None:
            for attempt in attempts:
                self._write(attempt, content)

        # A client that it opens speaks for the first of them: nothing here has a worker's token.
        current.set(running.begun[0].context)
        keep_output.set(write)
        value = callee.function(items)
        if loop is not None:
            value = _await(value, loop)
        return read_answers(value, len(items))

    def _describe(self, call: "FunctionCall", error: BaseException) -> Outcome:
        if call.attempt.stop is None and isinstance(error, TaskStopped):
            return HANDED_BACK
        return call.describe_error(error)

    def _forget(self, call: "FunctionCall", outcome: Outcome) -> None:
        self._running.pop(call, None)
        self._end(call, outcome)


def _await(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """Await a coroutine on another loop; an exception that is sent here ends it there."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        while not concurrent.futures.wait([future], SLICE_SECONDS).done:
            pass
    except BaseException:
        future.cancel()
        raise
    try:
        return future.result()
    except concurrent.futures.CancelledError as error:
        raise PermanentError("the batch was cancelled by its own code") from error
