"""Claims, asked for by a request of their own or brought along by completions."""

import asyncio
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.api.errors import describe
from holdfast.api.route import Call
from holdfast.errors import Invalid, LeaseConflict, Refused
from holdfast.model.access.callers import Caller
from holdfast.model.work.ids import check_worker_id, parse_task_id
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.services.job_descriptions import describe_job
from holdfast.services.runtime import Runtime
from holdfast.services.server_spans import now_ns, trace_claims
from holdfast.services.waking.doorbell import Bell
from holdfast.store.specs import StoredSpec
from holdfast.wire.answers import ABILITIES, ClaimedTask, ErrorBody, TaskClaimAnswer
from holdfast.wire.raw import raw
from holdfast.wire.requests import Nothing, TaskClaimRequest, TaskCompleteRequest

_MILLISECOND = timedelta(milliseconds=1)
_encode = msgspec.json.Encoder().encode


class _Wish(NamedTuple):
    """A claim that waits, which somebody may answer who has just stored what it asks for."""

    request: ClaimRequest
    caller: Caller

    @property
    def is_over(self) -> bool:
        return self.caller.is_over


async def claim_for(call: Call[Any, Nothing], asked: TaskClaimRequest) -> TaskClaimAnswer:
    """Lease tasks to a worker that may have them; may wait until there are some."""
    runtime = call.runtime
    request = _read(asked)
    claiming_from = received_at = _now()
    began_ns = now_ns()
    ends_at = received_at + asked.wait_ms / 1000
    runtime.stops.see(request.worker_id)
    bells = [Bell("queue", queue) for queue in request.queues]
    wish = _Wish(request, call.caller)
    with runtime.doorbells.listen(bells, request.max_tasks, wish) as listener:
        try:
            claims = await runtime.writers.claim(request)
            while not claims and request.task_id is None:
                heard = await listener.wait(ends_at - _now())
                if listener.given is not None:
                    claiming_from, claims = listener.lent_at, listener.given
                    began_ns = now_ns() - int((_now() - claiming_from) * 1e9)
                    break
                if not heard or runtime.doorbells.is_closed or call.caller.is_over:
                    break
                claiming_from, began_ns = _now(), now_ns()
                claims = await runtime.writers.claim(request)
        except LeaseConflict:
            runtime.metrics.claim_conflicts.inc()
            raise
    waited_ms = int((claiming_from - received_at) * 1000)
    return _answer(runtime, request, claims, began_ns=began_ns, waited_ms=waited_ms)


def check_along(call: Call[TaskCompleteRequest, Nothing]) -> ClaimRequest | Exception | None:
    """Read the claim that completions bring along; what is wrong with it is no matter of theirs."""
    asked = call.body.claim
    if asked is None:
        return None
    try:
        if asked.task_id is not None:
            raise Invalid("claim.task_id", "does not go along with completions; name queues")
        if asked.wait_ms:
            raise Invalid("claim.wait_ms", "would hold up the completions; leave it out")
        if asked.worker_id != call.body.worker_id:
            raise Invalid("claim.worker_id", "is not the worker that completes; name the same one")
        call.caller.check_queues(asked.queues, "tasks are claimed")
        return _read(asked)
    except Refused as refused:
        return refused


def answer_along(
    runtime: Runtime,
    request: ClaimRequest | Exception | None,
    claimed: list[Claim] | Exception | None,
    *,
    began_ns: int,
) -> tuple[TaskClaimAnswer | None, ErrorBody | None]:
    """Describe what came of the claim that completions brought along."""
    problem = request if isinstance(request, Exception) else claimed
    if request is None or problem is None:
        return None, None
    if isinstance(problem, LeaseConflict):
        runtime.metrics.claim_conflicts.inc()
    if isinstance(problem, Exception) or isinstance(request, Exception):
        assert isinstance(problem, Exception)
        return None, describe(problem)
    return _answer(runtime, request, problem, began_ns=began_ns), None


def _answer(
    runtime: Runtime,
    request: ClaimRequest,
    claims: list[Claim],
    *,
    began_ns: int,
    waited_ms: int = 0,
) -> TaskClaimAnswer:
    """Describe claims to the worker, and have others look if there may be more."""
    if len(claims) == request.max_tasks:
        for queue in request.queues:
            runtime.doorbells.ring(Bell("queue", queue))
    spans = trace_claims(claims, request.worker_id, began_ns)
    return TaskClaimAnswer(
        [_claimed(claim, span) for claim, span in zip(claims, spans, strict=True)],
        waited_ms,
        ABILITIES,
    )


def _read(asked: TaskClaimRequest) -> ClaimRequest:
    return ClaimRequest(
        check_worker_id(asked.worker_id),
        tuple(asked.queues),
        asked.max_tasks,
        None if asked.task_id is None else parse_task_id(asked.task_id),
        asked.idempotency_key,
        asked.free,
        asked.capacity,
        asked.book,
        asked.start,
    )


def _claimed(claim: Claim, span: str | None) -> ClaimedTask:
    return ClaimedTask(
        str(claim.task_id),
        claim.attempt,
        claim.lease_token,
        claim.lease_expires_at,
        max(claim.lease_remaining // _MILLISECOND, 0),
        _claimed_job(claim.task_id.job_id, claim.job),
        claim.failure_count,
        claim.preemption_count,
        raw(claim.input),
        msgspec.UNSET if span is None else span,
        claim.free_loss_count > 0 or msgspec.UNSET,
        claim.started or msgspec.UNSET,
    )


def _claimed_job(job_id: int, stored: StoredSpec) -> msgspec.Raw:
    """Write down what a worker needs of a job, once per job and process."""
    text = stored.encoded.get("job")
    if text is None:
        text = stored.encoded["job"] = _encode(describe_job(job_id, stored))
    return msgspec.Raw(text)


def _now() -> float:
    return asyncio.get_running_loop().time()
