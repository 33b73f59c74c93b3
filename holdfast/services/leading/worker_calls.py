"""One call to one worker: written from the ledger, sent, and its answer read with suspicion."""

import errno
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import aiohttp
import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError, Invalid
from holdfast.model.shapes import read_tolerantly
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import parse_task_id
from holdfast.model.work.outcomes import parse_status
from holdfast.model.work.states import LIVE_STATES, TaskState, parse_state
from holdfast.model.workers.resources import Resources
from holdfast.operations.ending.complete import Completion
from holdfast.operations.notes import Note
from holdfast.operations.placed.worker_heartbeats import Prepared, Wanted
from holdfast.operations.report import Report
from holdfast.operations.usage import Usage
from holdfast.rules.lifecycle import is_ahead
from holdfast.services.job_descriptions import describe_job
from holdfast.services.leading.reach import LOOPBACK_ONLY, Reach
from holdfast.store.specs import StoredSpec
from holdfast.tls.calling import describe_refusal
from holdfast.wire.answers import AttemptName, ErrorAnswer
from holdfast.wire.cluster import (
    HEARTBEAT_PATH,
    SECRET_HEADER,
    CompletedTask,
    Gang,
    PlacedJob,
    RunningTask,
    TaskToKill,
    TaskToRun,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.wire.raw import raw

CALL_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 32 << 20
ENTRIES_MAX = 10_000
# What a worker of ours says why it does not obey.
REFUSALS = {"forbidden", "invalid", "conflict"}
NO_SPANS: Mapping[Fence, str] = {}
_encode = msgspec.json.Encoder().encode
# What this host lacks, it lacks for every worker: no answer is to be blamed for it.
OUR_FAULTS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}


class CallFailed(HoldfastError):
    """A worker did not answer, or not as one that can be relied on; or `is_ours`, the fault.

    One that `was_not_sent` cannot have reached the worker.
    """

    def __init__(self, problem: str, *, is_ours: bool = False, was_not_sent: bool = False) -> None:
        super().__init__(problem)
        self.is_ours = is_ours
        self.was_not_sent = was_not_sent


class Meaning(NamedTuple):
    """What an answer says of the attempts that the call had named, and which others run there."""

    starts: list[Report]
    completions: list[Completion]
    reported: list[CompletedTask]
    running: tuple[Fence, ...]
    usage: list[Usage]
    unknown: frozenset[Fence]
    # Offered by the call, and not there.
    unnamed: frozenset[Fence]
    # It says that it takes nothing more, which is news.
    drains: bool = False


def write_request(
    prepared: Prepared,
    epoch: int,
    number: int,
    *,
    acknowledged: Sequence[AttemptName],
    unknown: frozenset[Fence] = frozenset(),
    spans: Mapping[Fence, str] = NO_SPANS,
) -> bytes:
    """Write down everything that is wanted of a worker; what is `unknown` there is to end."""
    answered_epoch, answered_number = prepared.answered or (None, None)
    strangers = sorted(unknown - {wanted.fence for wanted in prepared.wanted})
    return _encode(
        WorkerHeartbeatRequest(
            worker_id=prepared.worker_id,
            epoch=epoch,
            number=number,
            answered_epoch=answered_epoch,
            answered_number=answered_number,
            tasks_to_run=[
                _to_run(wanted, spans.get(wanted.fence))
                for wanted in prepared.wanted
                if not wanted.ending
            ],
            tasks_to_kill=[
                *(
                    _to_kill(wanted.fence, wanted.lease_remaining)
                    for wanted in prepared.wanted
                    if wanted.ending
                ),
                *(_to_kill(fence) for fence in strangers),
            ],
            acknowledged=list(acknowledged),
            drain=prepared.is_draining,
        )
    )


async def send(
    session: aiohttp.ClientSession,
    prepared: Prepared,
    body: bytes,
    *,
    reach: Reach = LOOPBACK_ONLY,
) -> bytes:
    """Send a call and return the answer's text. Raises CallFailed."""
    try:
        if (problem := reach.find_problem(prepared.address)) is not None:
            raise CallFailed(problem, was_not_sent=True)
        async with session.post(
            prepared.address + HEARTBEAT_PATH,
            data=body,
            headers={"Content-Type": "application/json", SECRET_HEADER: prepared.secret},
            allow_redirects=False,
            ssl=reach.context(),
        ) as response:
            text = bytearray()
            async for chunk in response.content.iter_any():
                text += chunk
                if len(text) > ANSWER_BYTES_MAX:
                    raise CallFailed(f"its answer is longer than {ANSWER_BYTES_MAX} bytes")
            if response.status != 200:
                raise CallFailed(f"it answered {response.status}, {_read_code(bytes(text))}")
            return bytes(text)
    except aiohttp.ConnectionTimeoutError as error:
        raise CallFailed("it could not be connected to in time", was_not_sent=True) from error
    except TimeoutError as error:
        raise CallFailed(f"no answer within {session.timeout.total:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        is_ours = isinstance(error, OSError) and error.errno in OUR_FAULTS
        # No connection came about. One that broke may have carried the call before.
        was_not_sent = isinstance(error, aiohttp.ClientConnectorError)
        problem = describe_refusal(error, prepared.address) or _name_kind(error)
        raise CallFailed(problem, is_ours=is_ours, was_not_sent=was_not_sent) from error


def _name_kind(error: Exception) -> str:
    """Name the kind of a failure; nothing that a stranger has sent is repeated."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError):  # before anything was received
        if isinstance(error, aiohttp.ClientConnectorDNSError):  # or one that we refuse ourselves
            return f"{kind}: {error.os_error}"
        return f"{kind}: {os.strerror(error.errno or 0)}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{kind}: {os.strerror(error.errno)}"
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        return f"{kind}: its answer is not HTTP"
    return kind


def read_answer(text: bytes, worker_id: str, *, epoch: int, number: int) -> WorkerHeartbeatAnswer:
    """Read an answer; it must be that of this incarnation to this call. Raises CallFailed."""
    try:
        answer = read_tolerantly(text, WorkerHeartbeatAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailed("its answer is not in our shape") from error
    if (answer.worker_id, answer.epoch, answer.number) != (worker_id, epoch, number):
        raise CallFailed("its answer is that of another incarnation, or to another call")
    if len(answer.running_tasks) + len(answer.completed_tasks) > ENTRIES_MAX:
        raise CallFailed(f"its answer names more than {ENTRIES_MAX} attempts")
    return answer


def interpret(prepared: Prepared, answer: WorkerHeartbeatAnswer) -> Meaning:
    """Compare what a worker has with what was wanted there. Raises CallFailed."""
    try:
        running = {_fence(entry): _state(entry) for entry in answer.running_tasks}
        reported = {_fence(entry): entry for entry in answer.completed_tasks}
        completions = [_completion(fence, entry) for fence, entry in reported.items()]
        named = [replace(entry, attempt=fence.attempt) for fence, entry in reported.items()]
    except (Invalid, UnicodeDecodeError) as error:
        raise CallFailed(f"its answer makes no sense: {getattr(error, 'field', 'text')}") from error
    starts = []
    for wanted in prepared.wanted:
        state = running.get(wanted.fence)
        if state is not None:
            if not wanted.ending and is_ahead(state, wanted.state):
                starts.append(Report(wanted.fence, state))
        elif wanted.fence in reported:
            continue
        elif wanted.ending:  # asked to end it, and it is not there: the process is gone
            completions.append(Completion(wanted.fence, "killed"))
        elif wanted.acknowledged:
            completions.append(
                Completion(wanted.fence, "worker_failed", error="missing on its worker")
            )
    usage = [
        Usage(wanted.fence, reported[wanted.fence].usage, reported[wanted.fence].build)
        for wanted in prepared.wanted
        if wanted.fence in reported
    ]
    so_far = {_fence(entry): entry.usage for entry in answer.running_tasks if entry.usage}
    usage += [
        Usage(wanted.fence, so_far[wanted.fence], None, is_final=False)
        for wanted in prepared.wanted
        if wanted.fence in so_far
    ]
    unknown = frozenset(running.keys() - {wanted.fence for wanted in prepared.wanted})
    unnamed = list_offered(prepared) - running.keys() - reported.keys()
    drains = answer.draining and not prepared.is_draining
    return Meaning(starts, completions, named, tuple(running), usage, unknown, unnamed, drains)


def _read_code(text: bytes) -> str:
    """Name the kind of a refusal; nothing that a stranger has written is repeated."""
    try:
        code = read_tolerantly(text, ErrorAnswer).error.code
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "not in our shape"
    return code if code in REFUSALS else "not in our shape"


def list_offered(prepared: Prepared) -> frozenset[Fence]:
    """List what a call wants to be begun: what the worker has not named in an answer yet."""
    return frozenset(
        wanted.fence for wanted in prepared.wanted if not wanted.acknowledged and not wanted.ending
    )


def list_unacknowledged(prepared: Prepared) -> frozenset[Fence]:
    """List what no stored answer of the worker has named yet, whether it is wanted or ending."""
    return frozenset(wanted.fence for wanted in prepared.wanted if not wanted.acknowledged)


def _to_run(wanted: Wanted, span: str | None) -> TaskToRun:
    fence = wanted.fence
    is_new = not wanted.acknowledged
    return TaskToRun(
        task_id=str(fence.task_id),
        attempt=fence.attempt,
        lease_token=fence.lease_token,
        lease_ms=_ms(wanted.lease_remaining),
        cancel_ms=_ms(wanted.cancel_remaining),
        job=_placed_job(fence.task_id.job_id, wanted.job) if is_new else raw(None),
        input=raw(wanted.input),
        ports=wanted.ports if is_new else {},
        devices=wanted.devices if is_new else [],
        gang=Gang(wanted.peers, wanted.rank) if is_new and wanted.peers else None,
        trace_parent=span,
    )


def _to_kill(fence: Fence, lease_remaining: timedelta | None = None) -> TaskToKill:
    return TaskToKill(str(fence.task_id), fence.attempt, fence.lease_token, _ms(lease_remaining))


def _placed_job(job_id: int, stored: StoredSpec) -> msgspec.Raw:
    """Write down what a worker needs of a job, once per job and process."""
    text = stored.encoded.get("placed")
    if text is None:
        spec = stored.spec
        text = stored.encoded["placed"] = _encode(
            PlacedJob(
                *msgspec.structs.astuple(describe_job(job_id, stored))[:-1],
                resources=spec.resources or Resources(),
                bundle=spec.bundle,
                requirements=spec.requirements,
            )
        )
    return msgspec.Raw(text)


def _fence(entry: RunningTask | CompletedTask) -> Fence:
    number = entry.attempt_id if entry.attempt is None else entry.attempt
    if number is None:
        raise Invalid("attempt", "is missing; say which attempt of the task is meant")
    return Fence(parse_task_id(entry.task_id), number, entry.lease_token)


def _state(entry: RunningTask) -> TaskState:
    state = parse_state(entry.state)
    if state not in LIVE_STATES:  # PENDING is one that has not begun there: no news
        raise Invalid("state", f"{entry.state!r} is not one of an attempt under way")
    return state


def _completion(fence: Fence, entry: CompletedTask) -> Completion:
    return Completion(
        fence,
        parse_status(entry.status),
        entry.exit_code,
        entry.error,
        entry.error_class,
        entry.stage,
        None if entry.result is msgspec.UNSET else bytes(entry.result).decode(),
        tuple(Note(event.kind, bytes(event.payload).decode()) for event in entry.events),
        entry.start_reported,
        tuple(entry.outputs),
        timedelta(milliseconds=entry.run_ms),
        entry.put_off,
    )


def _ms(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds() * 1000)
