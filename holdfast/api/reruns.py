"""The route that submits a job again."""

from holdfast.api.endpoint import Call, Endpoint
from holdfast.ledger.keys import request_key
from holdfast.model.ids import parse_job_id
from holdfast.operations.submitting.rerun import rerun
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.lists import RerunAnswer
from holdfast.wire.requests import Nothing, RerunRequest


async def rerun_job(call: Call[RerunRequest, Nothing]) -> RerunAnswer:
    """Submit a job again: all of it, or the inputs of tasks that did not succeed."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.body
    request = [job_id, asked.only_unsuccessful, asked.rebind_outputs]
    made = await rerun(
        call.runtime.ledger,
        job_id,
        actor=call.actor,
        only_unsuccessful=asked.only_unsuccessful,
        dry_run=asked.dry_run,
        keyed=request_key("rerun", call.actor, asked.idempotency_key, request=request),
        rebind=asked.rebind_outputs,
    )
    return RerunAnswer(
        replay_of=str(made.replay_of),
        job_id=None if made.job_id is None else str(made.job_id),
        num_tasks=made.num_tasks,
        dry_run=asked.dry_run,
    )


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/jobs/{job_id}:rerun",
        rerun_job,
        RerunAnswer,
        body=RerunRequest,
        also={409: ErrorAnswer},
    ),
)
