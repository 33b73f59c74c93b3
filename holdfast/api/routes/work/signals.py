"""The routes of signals: to send one to a task, and for its attempt to wait for one."""

from holdfast.api.attempts import AttemptMay
from holdfast.api.route import Call, Narrowing, Route, decode_text
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import parse_job_id
from holdfast.operations.signals import send_signal, wait_for_signal
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.raw import raw
from holdfast.wire.requests import Nothing
from holdfast.wire.signals import (
    WAIT_PATH,
    SentSignal,
    SignalRequest,
    SignalWaitAnswer,
    SignalWaitRequest,
)


async def send(call: Call[SignalRequest, Nothing]) -> SentSignal:
    """Send a signal to a task: it is kept until its function waits for it, in this order.

    A task that waits for it already goes on at once.
    """
    asked = call.body
    sent = await send_signal(
        call.runtime.ledger,
        parse_job_id(call.path["job_id"]),
        asked.task,
        name=asked.name,
        payload=decode_text(asked.payload, "payload"),
        actor=call.actor,
        idempotency_key=asked.idempotency_key,
    )
    return SentSignal(
        task_id=str(sent.task_id), name=asked.name, number=sent.number, is_repeat=sent.is_repeat
    )


async def wait(call: Call[SignalWaitRequest, Nothing]) -> SignalWaitAnswer:
    """Ask whether a signal has come; if not, the attempt has to end, with the status waiting."""
    asked = call.body
    fence = call.fence_of(asked)
    found = await wait_for_signal(
        call.runtime.ledger, fence, name=asked.name, number=asked.number, timeout=asked.timeout
    )
    return SignalWaitAnswer(found.state, raw(found.payload))


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/jobs/{job_id}/signals",
        send,
        SentSignal,
        Role.SUBMIT,
        body=SignalRequest,
        also={409: ErrorAnswer},
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        WAIT_PATH,
        wait,
        SignalWaitAnswer,
        Role.WORKER,
        body=SignalWaitRequest,
        also={409: ErrorAnswer},
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
)
