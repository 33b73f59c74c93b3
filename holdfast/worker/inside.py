"""Run functions within the worker process: coroutines on its loop, the others in threads."""

import asyncio
import contextvars
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.client.context import Connection, Context, Identity, current
from holdfast.wire.requests import Progress
from holdfast.worker.attempt import Attempt, StopMode
from holdfast.worker.function import (
    BadCall,
    Callee,
    Outcome,
    TaskStopped,
    arguments_of,
    failure,
    success,
)

KILLED = Outcome("killed", error="stopped when asked to")


class InsideRunner:
    """Runs attempts in this process."""

    def __init__(self, server: str, connection: Connection, *, threads_max: int) -> None:
        self._server = server
        self._connection = connection
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="holdfast-task")

    async def run(self, attempt: Attempt, callee: Callee) -> Outcome:
        """Call the function and say how it ended; it is gone when this returns."""
        context = self._context(attempt)
        try:
            args, kwargs = arguments_of(
                callee, attempt.input, fan_out=attempt.job.fan_out, context=context
            )
        except BadCall as problem:
            return problem.outcome
        current.set(context)
        if callee.is_async:
            return await self._run_coroutine(attempt, callee, args, kwargs)
        return await self._run_in_thread(attempt, callee, args, kwargs)

    def close(self) -> None:
        """Let the idle threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run_coroutine(
        self, attempt: Attempt, callee: Callee, args: list[Any], kwargs: dict[str, Any]
    ) -> Outcome:
        task = asyncio.current_task()
        assert task is not None

        def stop(mode: StopMode) -> None:
            if mode != "soft" or not callee.wants_context:
                task.cancel()

        attempt.on_stop = stop
        try:
            return success(await callee.function(*args, **kwargs), pickled=callee.pickled)
        except asyncio.CancelledError as error:
            if attempt.stop is None:
                if task.cancelling():
                    raise
                return failure(error)
            while task.cancelling():
                task.uncancel()
            return KILLED
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - user code's
            return _end(attempt, error)
        finally:
            attempt.on_stop = None

    async def _run_in_thread(
        self, attempt: Attempt, callee: Callee, args: list[Any], kwargs: dict[str, Any]
    ) -> Outcome:
        call = _ThreadCall(lambda: callee.function(*args, **kwargs))

        def stop(mode: StopMode) -> None:
            if mode != "soft" or not callee.wants_context:
                call.interrupt()

        attempt.on_stop = stop
        copied = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, copied.run, call)
        was_cancelled = False
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                # The thread goes on until it is interrupted; the attempt is not over before that.
                was_cancelled = True
                call.interrupt()
        attempt.on_stop = None
        value, error = future.result()
        if isinstance(error, TaskStopped):
            if was_cancelled and attempt.stop is None:
                raise asyncio.CancelledError
            return KILLED
        if error is not None:
            return _end(attempt, error)
        return success(value, pickled=callee.pickled)

    def _context(self, attempt: Attempt) -> Context:
        def note(fraction: float, message: str | None) -> None:
            attempt.progress = Progress(fraction, message)

        return Context(
            identify(attempt, self._server),
            is_cancelled=lambda: attempt.stop is not None,
            note_progress=note,
            connection=lambda: self._connection,
        )


def identify(attempt: Attempt, server: str) -> Identity:
    """Say which attempt this is, for its function and its process."""
    return Identity(
        server=server,
        task_id=attempt.task_id,
        attempt=attempt.number,
        lease_token=attempt.lease_token,
        job_name=attempt.job.name,
        num_tasks=attempt.job.num_tasks,
        correlation_id=attempt.job.correlation_id,
        deadline=attempt.deadline(),
    )


def _end(attempt: Attempt, error: BaseException) -> Outcome:
    """Describe an error; after a request to stop, it is how the attempt was stopped."""
    outcome = failure(error)
    if attempt.stop is None:
        return outcome
    return Outcome("killed", error=outcome.error)


class _ThreadCall:
    """A call in a thread that can be interrupted between two steps of Python code."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._is_interrupted = False

    def __call__(self) -> tuple[Any, BaseException | None]:
        """Make the call; what it raised is an answer too."""
        try:
            with self._lock:
                if self._is_interrupted:
                    raise TaskStopped
                self._thread_id = threading.get_ident()
            try:
                return self._call(), None
            finally:
                with self._lock:
                    self._thread_id = None
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is its outcome
            return None, error

    def interrupt(self) -> None:
        """Raise TaskStopped in the thread, as soon as it runs Python code again."""
        with self._lock:
            self._is_interrupted = True
            if self._thread_id is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread_id), ctypes.py_object(TaskStopped)
                )
