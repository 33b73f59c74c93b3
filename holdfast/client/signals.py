"""Signals: sent to a task, and waited for in its function.

A signal has come, its time is over, or the attempt ends: then the next one calls the function anew,
and every wait that has ended answers as before.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import repeatable
from holdfast.errors import Invalid, SignalTimedOut
from holdfast.model.work.ids import parse_job_id
from holdfast.wire.raw import encode_json
from holdfast.wire.signals import (
    WAIT_PATH,
    SentSignal,
    SignalRequest,
    SignalWaitAnswer,
    SignalWaitRequest,
)

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.context import Context

NO_DEFAULT: Any = object()
# Code that is to stop is not held up for longer by a server that does not answer.
TOLD_SECONDS_MAX = 2.0


class SendsSignals:
    """A client, as far as it sends signals."""

    @both
    def signal(
        self: "Client",
        job_id: str | int,
        name: str,
        payload: Any = None,
        *,
        task: int | None = None,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, SentSignal]:
        """Send a signal to a task of a job, named by its index; a job of one task needs none.

        It is kept until the function waits for it. Raises IllegalMove if the task has ended.
        """
        try:
            text = msgspec.Raw(encode_json(payload))
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid("payload", f"cannot be written as JSON ({error})") from error
        body = SignalRequest(name, text, task, repeatable(idempotency_key))
        path = f"/api/jobs/{parse_job_id(str(job_id))}/signals"
        return self.change(path, body, SentSignal)


class AttemptWaits(BaseException):
    """The attempt ends here, and its task waits for a signal; let it pass."""


def count_waits(_: "Context") -> Counter[str]:
    """Count the waits of an attempt, which are told apart by name and order."""
    return Counter()


def wait_for_signal(
    context: "Context", signal: str, /, *, timeout: float | None = None, default: Any = NO_DEFAULT
) -> Coroutine[Any, Any, Any]:
    """Wait for a signal and give its payload; until it comes, the attempt ends, free of charge.

    The next one calls the function anew, and waits that have ended answer as before. After the
    timeout, in seconds, it gives the default, or raises SignalTimedOut if there is none.
    """
    context._waits[signal] += 1
    body = SignalWaitRequest(*context.identity.lease, signal, context._waits[signal], timeout)
    return _ask(context, body, default)


async def _ask(context: "Context", body: SignalWaitRequest, default: Any) -> Any:
    asking = asyncio.ensure_future(context._call(WAIT_PATH, body, SignalWaitAnswer))
    try:
        answer = await asyncio.shield(asking)
    except asyncio.CancelledError:
        # Another wait has ended the attempt. Any of them may wake the task, if the server knows it.
        told = asyncio.wait_for(asking, TOLD_SECONDS_MAX)
        await asyncio.gather(told, return_exceptions=True)
        raise
    return read_answer(answer, body.name, default)


def read_answer(answer: SignalWaitAnswer, name: str, default: Any) -> Any:
    """Give the payload; raises SignalTimedOut, or AttemptWaits to end the attempt."""
    match answer.state:
        case "received":
            return msgspec.json.decode(answer.payload)
        case "timed_out":
            if default is NO_DEFAULT:
                raise SignalTimedOut(f"signal {name} has not come in time")
            return default
        case "waiting":
            raise AttemptWaits(name)


def is_waiting(error: BaseException) -> bool:
    """Tell whether an attempt has ended to wait, and for nothing else."""
    if isinstance(error, BaseExceptionGroup):  # a group of coroutines in which one waits
        return error.split(AttemptWaits)[1] is None
    return isinstance(error, AttemptWaits)
