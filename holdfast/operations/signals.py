"""Send a signal to a task, and wait for one: the attempt asks, and ends if there is none yet.

attempt asks ─► there is one: its payload, in this attempt and in all that follow
             └► none: the attempt ends, its task waits ─► signal or time-out: the next one asks
"""

from typing import Literal, NamedTuple

from holdfast.errors import IllegalMove, Invalid, KeyReused, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.keys import KEY_LENGTH_MAX
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId, check_job_id, check_task_id
from holdfast.operations.own_attempt import load_own
from holdfast.operations.upkeep.requeue import promote
from holdfast.rules.signals import check_signal_name, check_wait_number, read_timeout
from holdfast.rules.submitting.submission import check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.work import signals
from holdfast.store.tables.work.leases import has_live_lease
from holdfast.store.tables.work.signals import PutSignal, WaitKey
from holdfast.store.tables.work.tasks import lock_tasks

SIGNALS_PER_NAME_MAX = 1000


class Sent(NamedTuple):
    """The task that a signal was kept for, and the how-manieth of its name it is there."""

    task_id: TaskId
    number: int
    is_repeat: bool


async def send_signal(
    ledger: Ledger,
    job_id: int,
    task_index: int | None,
    *,
    name: str,
    payload: str,
    actor: str,
    idempotency_key: str | None = None,
) -> Sent:
    """Keep a signal for a task, and have the task go on if it waits for it."""
    check_job_id(job_id)
    if task_index is not None:
        check_task_id(TaskId(job_id, task_index))
    check_signal_name(name)
    check_json("payload", payload, ledger.limits.input_bytes_max)
    check_text("actor", actor, 256)
    if idempotency_key is not None:
        if not idempotency_key:
            raise Invalid("idempotency_key", "is empty; leave it out, or give it a name")
        check_text("idempotency_key", idempotency_key, KEY_LENGTH_MAX)
    return await ledger.write(
        _send,
        job_id,
        task_index=task_index,
        name=name,
        payload=payload,
        actor=actor,
        key=idempotency_key,
    )


async def _send(
    _: Ledger,
    tx: Transaction,
    job_id: int,
    *,
    task_index: int | None,
    name: str,
    payload: str,
    actor: str,
    key: str | None,
) -> Sent:
    put = await signals.put_signal(
        tx, job_id, task_index, name=name, payload=payload, key=key, sender=actor
    )
    if put.outcome not in ("sent", "repeated"):
        raise _refuse(put, job_id, name=name, key=key)
    assert put.task_index is not None
    assert put.number is not None
    task_id = TaskId(job_id, put.task_index)
    if put.outcome == "sent":
        await promote(tx, [task_id])
        did = NewAction(actor, "signal", "task", str(task_id), None, {"signal": name})
        await record_actions(tx, [did])
    return Sent(task_id, put.number, is_repeat=put.outcome == "repeated")


def _refuse(put: PutSignal, job_id: int, *, name: str, key: str | None) -> Exception:
    """Say why a signal was not kept."""
    task_id = f"{job_id}.{put.task_index}"
    match put.outcome:
        case "no_job":
            return NotFound("job", job_id)
        case "which_task":
            return Invalid("task", f"is missing: job {job_id} has several; say which by its index")
        case "no_task":
            return NotFound("task", task_id)
        case "other_content":
            return KeyReused(key or "", request="signal")
        case "too_many":
            return TooLarge("name", SIGNALS_PER_NAME_MAX + 1, SIGNALS_PER_NAME_MAX, unit="signals")
        case _:
            move = f"send signal {name!r} to"
            return IllegalMove(f"task {task_id}", "at its end, or its job is", move)


class Waited(NamedTuple):
    """How a wait stands; the payload is a JSON text."""

    state: Literal["received", "timed_out", "waiting"]
    payload: str | None = None


async def wait_for_signal(
    ledger: Ledger, fence: Fence, *, name: str, number: int, timeout: float | None
) -> Waited:
    """Ask for a signal, in the name of an attempt; the answer is the same in all that follow.

    If the answer is "waiting", the attempt has to end with the status of that name.
    """
    check_fence(fence)
    check_signal_name(name)
    check_wait_number(number)
    read_timeout(timeout)
    return await ledger.write(_wait, fence, name=name, number=number, timeout=timeout)


async def _wait(
    ledger: Ledger,
    tx: Transaction,
    fence: Fence,
    *,
    name: str,
    number: int,
    timeout: float | None,
) -> Waited:
    # One at a time: two waits for one name take different signals.
    await lock_tasks(tx, [fence.task_id])
    if not await has_live_lease(tx, fence):
        raise LeaseConflict(fence.task_id, "the attempt has ended; it waits for nothing any more")
    if (await load_own(tx, ledger.specs, fence)).terms.is_gang:
        raise Invalid("wait", "is not for members of a gang, which would all have to start again")
    key = WaitKey(fence.task_id, name, number)
    known = await signals.find_wait(tx, key)
    if known is not None and known.has_ended:
        return _ended(known.payload, is_signal=known.signal_number is not None)
    await signals.ask_wait(tx, key, attempt=fence.attempt, timeout=read_timeout(timeout))
    payload = await signals.take_signal(tx, key)
    if payload is not None:
        return _ended(payload, is_signal=True)
    if await signals.time_out_wait(tx, key):
        return _ended(None, is_signal=False)
    return Waited("waiting")


def _ended(payload: str | None, *, is_signal: bool) -> Waited:
    return Waited("received", payload) if is_signal else Waited("timed_out")
