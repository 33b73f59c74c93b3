"""The routes of workers: register, claim, renew, complete, and what an attempt leaves behind."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from holdfast.api.claiming import claim_for
from holdfast.api.errors import describe
from holdfast.api.route import Call, Narrowing, Route
from holdfast.errors import Invalid, LeaseConflict, NotAllowed
from holdfast.ledger.keys import request_key
from holdfast.model.access.roles import Role
from holdfast.model.programs import read_date, read_version
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import check_worker_id, parse_task_id
from holdfast.model.work.states import TaskState, parse_state
from holdfast.model.workers.resources import Capacity
from holdfast.operations.notes import check_progress, note_progress
from holdfast.operations.register import Placing, Registration, leave, register
from holdfast.operations.renew import Renewed
from holdfast.operations.report import Report
from holdfast.operations.report_once import report_once
from holdfast.operations.usage import Usage, note_usage
from holdfast.rules.lifecycle import is_ahead
from holdfast.services.runtime import Runtime
from holdfast.services.stops import Stop
from holdfast.wire.answers import (
    AttemptName,
    CancelNotice,
    ErrorAnswer,
    HeartbeatAnswer,
    LeaseAnswer,
    TaskClaimAnswer,
    WorkerRegisterAnswer,
)
from holdfast.wire.cluster import WorkerLeaveRequest, WorkerNewsRequest
from holdfast.wire.requests import (
    HeartbeatRequest,
    LeaseReport,
    Nothing,
    TaskClaimRequest,
    WorkerRegisterRequest,
)

LEASES_MAX = 10_000


async def claim_tasks(call: Call[TaskClaimRequest, Nothing]) -> TaskClaimAnswer:
    """Lease tasks to a worker: one by id, or up to max_tasks from queues; may wait for some."""
    asked = call.body
    call.caller.check_queues(asked.queues, "tasks are claimed")
    if asked.task_id is not None:
        await call.check_jobs([parse_task_id(asked.task_id).job_id])
    await call.runtime.credentials.check(call.headers, asked.worker_id)
    return await claim_for(call, asked)


async def beat(call: Call[HeartbeatRequest, Nothing]) -> HeartbeatAnswer:
    """Renew leases and record starts; may wait until there is a cancel to tell the worker of."""
    asked, runtime = call.body, call.runtime
    reports = _lease_reports(asked)
    fences = [Fence(parse_task_id(r.task_id), r.attempt, r.lease_token) for r in reports]
    alone = fences[0] if asked.leases is None and fences else None
    if asked.worker_id is not None:
        await runtime.credentials.check(call.headers, asked.worker_id)
    worker_id = await runtime.stops.see_caller(asked.worker_id, alone)
    said = [
        Report(fence, parse_state(report.state), timedelta(milliseconds=report.run_ms))
        for fence, report in zip(fences, reports, strict=True)
        if report.state is not None
    ]
    # That it has not begun is known of every attempt from its claim on.
    starts = [each for each in said if is_ahead(each.state, TaskState.ASSIGNED)]
    if asked.idempotency_key is not None and not said:
        problem = "goes with a state; without one, a heartbeat may be sent twice"
        raise Invalid("idempotency_key", problem)
    answers = await _write_beat(call, fences, starts, progress=_progress(call, fences, reports))
    used = [
        Usage(fence, report.usage, is_final=False)
        for fence, report, answer in zip(fences, reports, answers, strict=True)
        if isinstance(answer, Renewed)
    ]
    await note_usage(runtime.ledger, used)
    leases = [_lease_answer(f, answer) for f, answer in zip(fences, answers, strict=True)]
    if asked.leases is None and answers and isinstance(answers[0], Exception):
        raise answers[0]
    notices = [
        _notice(Stop(renewal.task_id, fence.attempt, renewal.cancel, renewal.cancel_remaining))
        for fence, renewal in zip(fences, answers, strict=True)
        if isinstance(renewal, Renewed) and renewal.cancel is not None
    ]
    if asked.wait_ms and not notices and worker_id is not None:
        # These are of all that the worker runs, and not of the one lease alone.
        await runtime.credentials.check(call.headers, worker_id)
        stops = await runtime.stops.wait(worker_id, asked.wait_ms / 1000)
        notices = [_notice(stop) for stop in stops]
    return HeartbeatAnswer(leases, notices, drain=worker_id in runtime.stops.draining)


async def _write_beat(
    call: Call[HeartbeatRequest, Nothing],
    fences: list[Fence],
    starts: list[Report],
    *,
    progress: list[tuple[Fence, float, str | None]],
) -> list[Renewed | Exception]:
    """Record starts and progress and renew leases; under a key, once."""
    asked, runtime = call.body, call.runtime
    if asked.idempotency_key is not None and starts:
        request = [fences, starts, progress]
        caller = asked.worker_id or f"lease {asked.lease_token}"
        keyed = request_key("start", caller, asked.idempotency_key, request=request)
        assert keyed is not None
        once = await report_once(runtime.ledger, starts, fences, keyed=keyed)
        if not once.is_repeat:
            _count_renewals(runtime, once.answers)
            await note_progress(runtime.ledger, progress)
        return [*once.answers]
    started, renewed, _ = await asyncio.gather(
        runtime.writers.report(starts),
        runtime.writers.renew(fences),
        note_progress(runtime.ledger, progress),
    )
    refused = {
        start.fence: answer
        for start, answer in zip(starts, started, strict=True)
        if isinstance(answer, Exception)
    }
    answers = [
        refused.get(fence, answer) if isinstance(answer, Renewed) else answer
        for fence, answer in zip(fences, renewed, strict=True)
    ]
    _count_renewals(runtime, answers)
    return answers


async def register_worker(call: Call[WorkerRegisterRequest, Nothing]) -> WorkerRegisterAnswer:
    """Make a worker's incarnation known; one that it replaces is ended at once."""
    asked = call.body
    if call.runtime.callers is not None and not call.caller.token_id:
        # A worker ends with its token; nothing would end one that has come without.
        raise NotAllowed(
            f"a worker registers with a token of Holdfast, and {call.caller.name!r} has shown "
            "none; use one with the role worker",
            lacks="a token of the role worker",
        )
    call.caller.check_queues(asked.queues, "a worker claims")
    if asked.address is not None:
        call.caller.refuse_narrow("placed work")
        await call.runtime.reach.check(asked.address)
    registration = Registration(
        asked.worker_id,
        asked.name,
        asked.host,
        tuple(asked.queues),
        asked.replaces,
        _placing(asked),
        tuple(
            Fence(parse_task_id(item.task_id), item.attempt, item.lease_token)
            for item in asked.adopts
        ),
        asked.crash,
        asked.resources if asked.address is None else None,
        asked.book if asked.address is None else None,
        asked.secret,
        asked.replaces_secret,
        call.caller.token_id or None,
        must_prove=call.runtime.callers is not None,
        version=read_version(call.headers.get(b"user-agent")),
        clock=read_date(call.headers.get(b"date")),
    )
    registered = await register(call.runtime.ledger, registration)
    call.runtime.credentials.note_registered(asked.worker_id)
    call.runtime.stops.see(asked.worker_id)
    if registration.placing is not None:
        call.runtime.hint(asked.worker_id)
    adopted = [AttemptName(str(fence.task_id), fence.attempt) for fence in registered.adopted]
    tick = None if registration.placing is None else call.runtime.leader.tick
    return WorkerRegisterAnswer(asked.worker_id, registered.taken_over, adopted, tick)


async def take_hint(call: Call[WorkerNewsRequest, Nothing]) -> Nothing:
    """Call a worker of placed work soon: it has something to tell."""
    await call.runtime.credentials.check(call.headers, call.body.worker_id)
    call.runtime.hint(check_worker_id(call.body.worker_id))
    return Nothing()


async def let_leave(call: Call[WorkerLeaveRequest, Nothing]) -> Nothing:
    """Strike a worker of placed work off, because it is gone with all that ran there."""
    await leave(call.runtime.ledger, call.body.worker_id, call.body.secret)
    return Nothing()


def _placing(asked: WorkerRegisterRequest) -> Placing | None:
    """Read what a worker says of itself that is to be called."""
    if asked.address is None:
        if asked.attributes:
            raise Invalid("attributes", "goes with address; say where the worker is called")
        return None
    capacity = asked.resources or Capacity()
    return Placing(asked.address, capacity, dict(asked.attributes), asked.book)


def _lease_reports(asked: HeartbeatRequest) -> list[LeaseReport]:
    if asked.leases is not None:
        alone = ("task_id", "attempt", "lease_token", "state", "progress", "run_ms", "usage")
        for field in alone:
            if getattr(asked, field) is not None:
                raise Invalid(field, "goes without leases; give one of the two")
        if len(asked.leases) > LEASES_MAX:
            raise Invalid("leases", f"names more than {LEASES_MAX}; send them in parts")
        return asked.leases
    if asked.task_id is None:
        return []
    if asked.attempt is None or asked.lease_token is None:
        missing = "attempt" if asked.attempt is None else "lease_token"
        raise Invalid(missing, "is missing; a lease is named by task_id, attempt and lease_token")
    return [
        LeaseReport(
            asked.task_id,
            asked.attempt,
            asked.lease_token,
            asked.state,
            asked.progress,
            asked.run_ms or 0,
            asked.usage,
        )
    ]


def _progress(
    call: Call[HeartbeatRequest, Nothing], fences: Sequence[Fence], reports: Sequence[LeaseReport]
) -> list[tuple[Fence, float, str | None]]:
    progress = [
        (fence, report.progress.fraction, report.progress.message)
        for fence, report in zip(fences, reports, strict=True)
        if report.progress is not None
    ]
    for _, fraction, message in progress:
        check_progress(fraction, message, call.runtime.ledger.limits)
    return progress


def _count_renewals(runtime: Runtime, answers: Sequence[Renewed | Exception]) -> None:
    """Count what was renewed and what was lost; of repeats, nothing was."""
    metrics = runtime.metrics
    metrics.renewals.inc(sum(isinstance(answer, Renewed) for answer in answers))
    metrics.lease_conflicts.inc(sum(isinstance(answer, LeaseConflict) for answer in answers))


def _lease_answer(fence: Fence, answer: Renewed | Exception) -> LeaseAnswer:
    if isinstance(answer, Renewed):
        remaining_ms = _ms(answer.lease_remaining)
        return LeaseAnswer(str(fence.task_id), answer.lease_expires_at, remaining_ms)
    return LeaseAnswer(str(fence.task_id), error=describe(answer))


def _notice(stop: Stop) -> CancelNotice:
    remaining_ms = None if stop.remaining is None else _ms(stop.remaining)
    return CancelNotice(str(stop.task_id), stop.attempt, stop.mode, remaining_ms)


def _ms(duration: timedelta) -> int:
    return max(int(duration.total_seconds() * 1000), 0)


CONFLICT = {409: ErrorAnswer}
ROUTES = (
    Route(
        "POST",
        "/internal/task-claim",
        claim_tasks,
        TaskClaimAnswer,
        Role.WORKER,
        body=TaskClaimRequest,
        also=CONFLICT,
        waits=True,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/internal/heartbeat",
        beat,
        HeartbeatAnswer,
        Role.WORKER,
        body=HeartbeatRequest,
        also=CONFLICT,
        waits=True,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/internal/worker-register",
        register_worker,
        WorkerRegisterAnswer,
        Role.WORKER,
        body=WorkerRegisterRequest,
        also=CONFLICT,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/internal/worker-news",
        take_hint,
        Nothing,
        Role.WORKER,
        body=WorkerNewsRequest,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/internal/worker-leave",
        let_leave,
        Nothing,
        Role.WORKER,
        body=WorkerLeaveRequest,
        narrowing=Narrowing.FUNCTION,
    ),
)
