"""A function in a process of its own: reads its call from a file, leaves its outcome in another.

What is printed goes where a command's output goes. SIGTERM is a request to stop: a function that
takes a context finds it there, any other is interrupted.
"""

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from holdfast.client.codec import load_codec
from holdfast.client.context import Connection, Context, Identity, Lease, current
from holdfast.errors import Invalid, Refused, Unavailable
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.traces import TraceContext
from holdfast.tracing.current import follow_trace
from holdfast.tracing.switch import start_tracing, stop_tracing
from holdfast.wire.attempt_calls import PROGRESS_PATH, TaskProgressRequest
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import Nothing, Progress
from holdfast.worker.allowing import CallLimit
from holdfast.worker.running.attempt_outcome import STOPPED, Outcome, failure
from holdfast.worker.running.batch import read_answers
from holdfast.worker.running.function import (
    BadCall,
    Callee,
    TaskStopped,
    arguments_of,
    describe_progress,
    find_function,
)
from holdfast.worker.running.outcome_file import write_outcome
from holdfast.worker.running.record_lines import set_up_records
from holdfast.worker.running.returning import describe_return
from holdfast.worker.running.runnable import connect

CALL_FILE = "call.json"
PROGRESS_EVERY_SECONDS = 0.5


class ChildCall(msgspec.Struct, frozen=True):
    """Everything a child needs to know."""

    identity: Identity
    entrypoint: Entrypoint
    fan_out: bool
    imports: list[str]
    input: msgspec.Raw = absent_is_null()
    undoes: bool = False
    limit: CallLimit | None = None
    # Where its worker has its codec from.
    codec: str | None = None


def main(folder: Path) -> None:
    """Run the call that lies in the folder, and leave its outcome there."""
    call = msgspec.json.decode((folder / CALL_FILE).read_bytes(), type=ChildCall)
    start_tracing("holdfast-worker")
    write_outcome(folder, run(call))
    stop_tracing()


def run(call: ChildCall) -> Outcome:
    """Find the function, call it, and say how it ended."""
    is_stopping = False
    try:
        codec = None if call.codec is None else load_codec(call.codec)
    except Invalid as error:
        return failure(error, "fetch")
    connection = cache(lambda: connect(call.identity.server, codec))
    context = Context(
        call.identity,
        is_cancelled=lambda: is_stopping,
        note_progress=_ProgressReporter(call.identity, connection).note,
        connection=connection,
        codec=codec,
    )

    def ask_to_stop() -> None:
        nonlocal is_stopping
        is_stopping = True

    try:
        _import_all(call.imports)
        callee = find_function(call.entrypoint, call.limit, codec)
        if call.entrypoint.results:
            callee = _fill_in(callee, call.entrypoint, connection(), lease=call.identity.lease)
        args, kwargs = arguments_of(
            callee, call.input, fan_out=call.fan_out, undoes=call.undoes, context=context
        )
    except BadCall as problem:
        return problem.outcome
    current.set(context)
    set_up_records()
    follow_trace(TraceContext.read(call.identity.trace_parent))
    try:
        work = _run_coroutine if callee.is_async else _run_plainly
        if callee.batch is not None:  # of one: others are in other processes
            args, kwargs = [[*args, *kwargs.values()][:1]], {}
        value = work(callee, args, kwargs, ask_to_stop=ask_to_stop)
        if callee.batch is not None:
            [value] = read_answers(value, 1)
            if isinstance(value, BaseException):
                return failure(value)
    except TaskStopped:
        return STOPPED
    except BaseException as error:  # noqa: BLE001 - whatever user code raises is its outcome
        return failure(error)
    return describe_return(callee, value, context)


def _import_all(names: list[str]) -> None:
    try:
        for name in names:
            importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise BadCall(failure(error, "fetch")) from error


def _fill_in(
    callee: Callee, entrypoint: Entrypoint, connection: Connection, *, lease: Lease
) -> Callee:
    """Put the results of other jobs among the arguments. Raises BadCall."""
    from holdfast.worker.running.dependency_results import fetch_results, fill_in

    fetching = fetch_results(connection.transport, entrypoint, lease)
    return fill_in(callee, entrypoint, connection.loop_thread.run(fetching))


def _run_plainly(
    callee: Callee, args: list[Any], kwargs: dict[str, Any], *, ask_to_stop: Callable[[], None]
) -> Any:
    def stop(*_: object) -> None:
        ask_to_stop()
        if not callee.wants_context:
            raise TaskStopped

    signal.signal(signal.SIGTERM, stop)
    try:
        return callee.function(*args, **kwargs)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on it would only do harm


def _run_coroutine(
    callee: Callee, args: list[Any], kwargs: dict[str, Any], *, ask_to_stop: Callable[[], None]
) -> Any:
    async def run_it() -> Any:
        task = asyncio.current_task()
        assert task is not None
        was_cancelled = False

        def stop() -> None:
            nonlocal was_cancelled
            ask_to_stop()
            if not callee.wants_context:
                was_cancelled = True
                task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        try:
            return await callee.function(*args, **kwargs)
        except asyncio.CancelledError:
            if was_cancelled:
                raise TaskStopped from None
            raise

    try:
        return asyncio.run(run_it())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class _ProgressReporter:
    """Reports to the server how far the function has got, as often as it makes sense."""

    def __init__(self, identity: Identity, connection: Callable[[], Connection]) -> None:
        self._identity = identity
        self._connection = connection
        self._latest: Progress | None = None
        self._reported: Progress | None = None
        self._is_reporting = False

    def note(self, fraction: float, message: str | None) -> None:
        """Take the latest word; a failure to pass it on is no failure of the function."""
        self._latest = describe_progress(fraction, message)
        if not self._is_reporting:
            self._is_reporting = True
            loop = self._connection().loop_thread.loop
            asyncio.run_coroutine_threadsafe(self._report(), loop)

    async def _report(self) -> None:
        while True:
            latest = self._latest
            if latest is not self._reported:
                assert latest is not None, "somebody has asked for a report"
                with suppress(Unavailable):  # then the latest by then is reported
                    await self._send(latest)
                    self._reported = latest
            await asyncio.sleep(PROGRESS_EVERY_SECONDS)

    async def _send(self, progress: Progress) -> None:
        lease = self._identity.lease
        body = TaskProgressRequest(*lease, progress.fraction, progress.message)
        with suppress(Refused):
            await self._connection().transport.call(
                "POST", PROGRESS_PATH, Nothing, body=body, headers=lease.headers()
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of user code must not keep a process whose outcome is known
