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
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from holdfast.client.both import LoopThread
from holdfast.client.context import Connection, Context, Identity, current
from holdfast.client.transport import Transport
from holdfast.model.spec import Entrypoint
from holdfast.wire.answers import HeartbeatAnswer
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import HeartbeatRequest, LeaseReport, Progress
from holdfast.worker.function import (
    BadCall,
    Callee,
    Outcome,
    TaskStopped,
    arguments_of,
    failure,
    find_function,
    success,
)

CALL_FILE = "call.json"
OUTCOME_FILE = "outcome.json"
STOPPED = Outcome("killed", error="stopped when asked to")


class ChildCall(msgspec.Struct, frozen=True):
    """Everything a child needs to know."""

    identity: Identity
    entrypoint: Entrypoint
    fan_out: bool
    imports: list[str]
    input: msgspec.Raw = absent_is_null()


def main(folder: Path) -> None:
    """Run the call that lies in the folder, and leave its outcome there."""
    call = msgspec.json.decode((folder / CALL_FILE).read_bytes(), type=ChildCall)
    outcome = run(call)
    partial = folder / f"{OUTCOME_FILE}.partial"
    partial.write_bytes(msgspec.json.encode(outcome))
    os.replace(partial, folder / OUTCOME_FILE)  # whole, or not at all


def run(call: ChildCall) -> Outcome:
    """Find the function, call it, and say how it ended."""
    is_stopping = False
    connection = cache(lambda: _connect(call.identity.server))

    def note(fraction: float, message: str | None) -> None:
        body = _progress(call.identity, Progress(fraction, message))
        link = connection()
        beat = link.transport.insist("POST", "/internal/heartbeat", HeartbeatAnswer, body=body)
        link.loop_thread.run(beat)

    context = Context(
        call.identity,
        is_cancelled=lambda: is_stopping,
        note_progress=note,
        connection=connection,
    )

    def ask_to_stop() -> None:
        nonlocal is_stopping
        is_stopping = True

    try:
        for name in call.imports:
            importlib.import_module(name)
        callee = find_function(call.entrypoint)
        args, kwargs = arguments_of(callee, call.input, fan_out=call.fan_out, context=context)
    except BadCall as problem:
        return problem.outcome
    except ImportError as error:
        return failure(error, "fetch")
    current.set(context)
    try:
        work = _run_coroutine if callee.is_async else _run_plainly
        value = work(callee, args, kwargs, ask_to_stop)
    except TaskStopped:
        return STOPPED
    except BaseException as error:  # noqa: BLE001 - whatever user code raises is its outcome
        outcome = failure(error)
        return Outcome("killed", error=outcome.error) if is_stopping else outcome
    return success(value, pickled=callee.pickled)


def _run_plainly(
    callee: Callee, args: list[Any], kwargs: dict[str, Any], ask_to_stop: Callable[[], None]
) -> Any:
    def stop(*_: object) -> None:
        ask_to_stop()
        if not callee.wants_context:
            raise TaskStopped

    signal.signal(signal.SIGTERM, stop)
    return callee.function(*args, **kwargs)


def _run_coroutine(
    callee: Callee, args: list[Any], kwargs: dict[str, Any], ask_to_stop: Callable[[], None]
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

    return asyncio.run(run_it())


def _connect(server: str) -> Connection:
    thread = LoopThread("holdfast-calls")
    transport = Transport(server)
    thread.run(transport.__aenter__())
    return Connection(transport, thread)


def _progress(identity: Identity, progress: Progress) -> HeartbeatRequest:
    report = LeaseReport(
        identity.task_id, identity.attempt, identity.lease_token, progress=progress
    )
    return HeartbeatRequest(f"child:{os.getpid()}", [report])


if __name__ == "__main__":
    # The folder in which the worker was started is where its modules are found.
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of user code must not keep a process whose outcome is known
