"""The routes by which jobs come in: one, many in one transaction, or one that was there before."""

from typing import Any
from uuid import UUID

from holdfast.api.job_statuses import job_status, new_job_status
from holdfast.api.route import Call, Reply, Route, decode_text
from holdfast.errors import Invalid
from holdfast.ledger.keys import request_key
from holdfast.model.fence import Fence, check_fence
from holdfast.model.ids import parse_job_id, parse_task_id
from holdfast.model.spec import JobSpec, Submission
from holdfast.operations.submitting.children import get_parent
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.store import Submitted
from holdfast.services.server_spans import Submitting, submission_span
from holdfast.store.reads.jobs import get_job
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.lists import RerunAnswer
from holdfast.wire.requests import JobBatchRequest, JobRequest, Nothing, RerunRequest
from holdfast.wire.status import JobBatchAnswer, JobStatus, SubmittedJob

LEASE_HEADER = b"holdfast-lease"
CONFLICTS = {409: ErrorAnswer}


async def submit_job(call: Call[JobRequest, Nothing]) -> Reply:
    """Take in a job: 201, or 200 when its idempotency key was seen before."""
    if call.body.local_name is not None:
        raise Invalid("local_name", "goes with graphs only; submit them to /api/jobs:batch")
    parent = await _parent_of(call)
    with submission_span(call.headers, call.body.trace_id) as span:
        submission = _submission(call.body, parent, span)
        submitted = await call.runtime.writers.submit(submission)
        span.describe(call.runtime.ledger.specs, submitted)
    return Reply(await _status_of(call, submitted), 201 if submitted.is_new else 200)


async def _status_of(call: Call[JobRequest, Nothing], submitted: Submitted) -> JobStatus:
    """Tell how a job stands; a repeat, or what was stored in chunks, is read for that."""
    if submitted.row is not None and submitted.at is not None:
        return new_job_status(submitted.row, submitted.at)
    async with call.runtime.reads.transaction() as tx:
        return job_status(await get_job(tx, submitted.job_id), is_new=submitted.is_new)


async def submit_jobs(call: Call[JobBatchRequest, Nothing]) -> Reply:
    """Take in jobs in one transaction: all of them, or none."""
    parent = await _parent_of(call)
    specs = call.body.specs
    with submission_span(call.headers, None, len(specs)) as span:
        submissions = [_submission(spec, parent, span) for spec in specs]
        answers = await submit_batch(call.runtime.ledger, submissions)
    jobs = [
        SubmittedJob(str(submitted.job_id), submitted.is_new, submission.num_tasks)
        for submission, submitted in zip(submissions, answers, strict=True)
    ]
    return Reply(JobBatchAnswer(jobs), 201)


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


async def _parent_of(call: Call[Any, Nothing]) -> int | None:
    """Find the job in whose name a running attempt submits: it shows its lease in a header."""
    shown = call.headers.get(LEASE_HEADER)
    if shown is None:
        return None
    try:
        task_id, attempt, token = shown.decode().split()
        fence = Fence(parse_task_id(task_id), int(attempt), UUID(token))
        check_fence(fence)
    except (ValueError, Invalid) as error:
        raise Invalid("Holdfast-Lease", "is not `TASK_ID ATTEMPT LEASE_TOKEN`") from error
    return await get_parent(call.runtime.ledger, fence)


def _submission(asked: JobRequest, parent_job_id: int | None, span: Submitting) -> Submission:
    spec = JobSpec(**{name: getattr(asked, name) for name in JobSpec.__struct_fields__})
    inputs = asked.inputs
    return Submission(
        spec,
        None
        if inputs is None
        else tuple(decode_text(text, f"inputs[{i}]") for i, text in enumerate(inputs)),
        parent_job_id,
        local_name=asked.local_name,
        trace_parent=span.parent_of(asked.trace_id),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/jobs",
        submit_job,
        JobStatus,
        body=JobRequest,
        also={201: JobStatus, **CONFLICTS},
    ),
    Route(
        "POST",
        "/api/jobs:batch",
        submit_jobs,
        None,
        body=JobBatchRequest,
        also={201: JobBatchAnswer, **CONFLICTS},
    ),
    Route(
        "POST",
        "/api/jobs/{job_id}:rerun",
        rerun_job,
        RerunAnswer,
        body=RerunRequest,
        also=CONFLICTS,
    ),
)
