"""Run functions within the worker process: coroutines on its loop, the others in threads."""

import asyncio
import contextvars
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.client.context import Connection, Context, current, list_outputs
from holdfast.model.spec import Entrypoint
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.function import (
    HANDED_BACK,
    KILLED,
    BadCall,
    Callee,
    Outcome,
    TaskStopped,
    arguments_of,
    describe_progress,
    failure,
    success,
)
from holdfast.worker.running.outputs import with_outputs
from holdfast.worker.running.runnable import connect, identify
from holdfast.worker.running.uncancelled import wait_until_done

# By item it is a copy of our own: others may want to declare its arguments otherwise.
_set_exception = ctypes.pythonapi["PyThreadState_SetAsyncExc"]


class FunctionRunner:
    """Runs attempts in this process."""

    def __init__(self, server: str, *, threads_max: int) -> None:
        self._server = server
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="holdfast-task")
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    async def run(self, attempt: Attempt, callee: Callee) -> Outcome:
        """Call the function and say how it ended; it is gone when this returns."""
        context = self._context(attempt)
        try:
            if attempt.job.entrypoint.results:
                callee = await self._fill_in(callee, attempt.job.entrypoint)
            args, kwargs = arguments_of(
                callee,
                attempt.input,
                fan_out=attempt.job.fan_out,
                undoes=attempt.job.compensates_job_id is not None,
                context=context,
            )
        except BadCall as problem:
            return problem.outcome
        current.set(context)
        attempt.started_at = boot_clock()
        run = self._run_coroutine if callee.is_async else self._run_in_thread
        outcome = await run(attempt, callee, args, kwargs=kwargs)
        return with_outputs(outcome, list_outputs(context))

    def close(self) -> None:
        """Let the idle threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._connection is not None:
            self._connection.loop_thread.stop(self._connection.transport.__aexit__())

    async def _fill_in(self, callee: Callee, entrypoint: Entrypoint) -> Callee:
        """Put the results of other jobs among the arguments. Raises BadCall."""
        from holdfast.worker.running.dependency_results import fetch_results, fill_in

        connection = await asyncio.to_thread(self._connect)
        fetching = fetch_results(connection.transport, entrypoint)
        found = await connection.loop_thread.await_(fetching)
        # To open them takes time, and user code; once it has begun it is seen through.
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(self._threads, fill_in, callee, entrypoint, found)
        was_cancelled = await wait_until_done(opening, on_cancel=lambda: None)
        filled = opening.result()
        if was_cancelled:
            raise asyncio.CancelledError
        return filled

    async def _run_coroutine(
        self, attempt: Attempt, callee: Callee, args: list[Any], *, kwargs: dict[str, Any]
    ) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        attempt.on_stop = _interrupter(callee, task.cancel)
        try:
            value = await callee.function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is its outcome
            return _end(attempt, error, was_cancelled=task.cancelling() > 0)
        return success(value, pickled=callee.pickled)

    async def _run_in_thread(
        self, attempt: Attempt, callee: Callee, args: list[Any], *, kwargs: dict[str, Any]
    ) -> Outcome:
        # The result is made fit to be sent in the thread, too: that takes time, and user code.
        call = _ThreadCall(
            lambda: success(callee.function(*args, **kwargs), pickled=callee.pickled)
        )
        attempt.on_stop = _interrupter(callee, call.interrupt)
        copied = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, copied.run, call)
        # The thread goes on until the interruption arrives; the attempt is not over before.
        was_cancelled = await wait_until_done(future, on_cancel=call.interrupt)
        outcome, error = future.result()
        if error is not None:
            return _end(attempt, error, was_cancelled=was_cancelled)
        assert outcome is not None
        return outcome

    def _context(self, attempt: Attempt) -> Context:
        def note(fraction: float, message: str | None) -> None:
            attempt.progress = describe_progress(fraction, message)

        return Context(
            identify(attempt, self._server),
            is_cancelled=lambda: attempt.stop is not None,
            note_progress=note,
            connection=self._connect,
        )

    def _connect(self) -> Connection:
        """Open what user code calls the server by: not the keeper's, which must not wait for it."""
        with self._lock:
            if self._connection is None:
                self._connection = connect(self._server)
            return self._connection


def _interrupter(callee: Callee, interrupt: Callable[[], object]) -> Callable[[StopMode], None]:
    def stop(mode: StopMode) -> None:
        is_told = callee.wants_context and mode in ("soft", "timeout")
        if not is_told:  # else it looks for itself, and has its grace
            interrupt()

    return stop


def _end(attempt: Attempt, error: BaseException, *, was_cancelled: bool) -> Outcome:
    """Describe an error: after a request to stop, or a drain, it is how the code was stopped."""
    if attempt.stop is None:
        return HANDED_BACK if was_cancelled else failure(error)
    if isinstance(error, asyncio.CancelledError | TaskStopped):
        return KILLED
    return Outcome("killed", error=failure(error).error)


class _ThreadCall:
    """A call in a thread that can be interrupted between two steps of Python code."""

    def __init__(self, call: Callable[[], Outcome]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._is_interrupted = False

    def __call__(self) -> tuple[Outcome | None, BaseException | None]:
        """Make the call; what it raised is an answer too."""
        answer: tuple[Outcome | None, BaseException | None] = None, TaskStopped()
        try:
            try:
                with self._lock:
                    if self._is_interrupted:
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
            self._is_interrupted = True
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
