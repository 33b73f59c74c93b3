"""The routes by which jobs come in: one, many in one transaction, or one that was there before."""

from typing import Any

import msgspec

from holdfast.api import convert
from holdfast.api.attempts import AttemptMay, read_lease
from holdfast.api.job_statuses import job_status, new_job_status
from holdfast.api.route import Call, Narrowing, Reply, Route, decode_text
from holdfast.errors import Invalid
from holdfast.ledger.keys import RequestKey, recall, request_key
from holdfast.model.access.actors import proven
from holdfast.model.access.roles import Role
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.model.submitting.unique import Unique
from holdfast.model.work.ids import parse_job_id, parse_task_id
from holdfast.operations.submitting.children import get_parent
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.resume import Resumed, resume
from holdfast.operations.submitting.store import Submitted
from holdfast.services.server_spans import Submitting, submission_span
from holdfast.store.reads.work.jobs import get_job
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.graphs import ResumeAnswer, ResumeRequest
from holdfast.wire.lists import RerunAnswer
from holdfast.wire.requests import (
    JobBatchRequest,
    JobRequest,
    Nothing,
    RerunRequest,
)
from holdfast.wire.status import JobBatchAnswer, JobStatus, SubmittedJob

CONFLICTS = {409: ErrorAnswer}


async def submit_job(call: Call[JobRequest, Nothing]) -> Reply:
    """Take in a job: 201, or 200 when its idempotency key was seen before."""
    if call.body.local_name is not None:
        raise Invalid("local_name", "goes with graphs only; submit them to /api/jobs:batch")
    parent = await _parent_of(call)
    [asked] = await _narrowed(call, [call.body])
    with submission_span(call.headers, call.body.trace_id) as span:
        submission = _submission(asked, parent, span, actor=proven(call.actor))
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
    specs = await _narrowed(call, call.body.specs)
    with submission_span(call.headers, None, len(specs)) as span:
        actor = proven(call.actor)
        submissions = [_submission(spec, parent, span, actor=actor) for spec in specs]
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


async def resume_job(call: Call[ResumeRequest, Nothing]) -> ResumeAnswer:
    """Run again what failed around a job, and what was killed because of that."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.body
    inputs = {
        parse_task_id(task_id, "inputs"): decode_text(text, f"inputs[{task_id}]")
        for task_id, text in asked.inputs.items()
    }
    request = [job_id, sorted(inputs.items()), asked.rebind_outputs]
    keyed = request_key("resume", call.actor, asked.idempotency_key, request=request)
    await _check_resumed(call, job_id, keyed)
    made = await resume(
        call.runtime.ledger,
        job_id,
        actor=call.actor,
        inputs=inputs,
        dry_run=asked.dry_run,
        keyed=keyed,
        rebind=asked.rebind_outputs,
    )
    return ResumeAnswer(
        jobs=[convert.resumed_job(each) for each in made],
        dry_run=asked.dry_run,
    )


async def _check_resumed(
    call: Call[ResumeRequest, Nothing], job_id: int, keyed: RequestKey | None
) -> None:
    """Refuse to run again, or to tell of, what stands around a job and is not the caller's."""
    if call.caller.is_narrow:
        await call.check_jobs([job_id])
        # A dry run tells how things stand now, whatever was answered under the key.
        known = None if call.body.dry_run else keyed
        around = await recall(call.runtime.ledger, known, list[Resumed])
        if around is None:
            around = await resume(
                call.runtime.ledger,
                job_id,
                actor=call.actor,
                dry_run=True,
                rebind=call.body.rebind_outputs,
            )
        await call.check_jobs(each.replay_of for each in around)


async def _narrowed(call: Call[Any, Nothing], asked: list[JobRequest]) -> list[JobRequest]:
    """Keep jobs to the owners and queues of whoever submits them, and to their own dependencies."""
    caller = call.caller
    if not (caller.name or caller.attempt):
        return asked
    for job in asked:
        if job.placed and caller.queues:
            caller.refuse_narrow("placed work")
        if job.outputs:
            caller.refuse_narrow("a job with outputs, whose datasets have no owner,")
        named = [each if isinstance(each, str) else each.job for each in job.depends_on]
        named += [result.job for result in job.entrypoint.results]
        # What is no id is the name of a job in the same call, or is refused later.
        ids = [parse_job_id(name, "depends_on") for name in named if name.isdecimal()]
        await call.check_jobs(ids)
    return [
        msgspec.structs.replace(
            job,
            # A child belongs to whom its parent does, whoever its submitter says he is.
            owner=caller.narrow_owner(None if caller.attempt else job.owner) or caller.name,
            queue=caller.narrow_queue(job.queue),
            # Nor is he told of a job of somebody else, or may put one out of the way.
            unique=_within_owner(job.unique) if caller.owners or caller.attempt else job.unique,
        )
        for job in asked
    ]


def _within_owner(unique: Unique | None) -> Unique | None:
    return None if unique is None else msgspec.structs.replace(unique, owner=True)


async def _parent_of(call: Call[Any, Nothing]) -> int | None:
    """Find the job in whose name a running attempt submits: it shows its lease in a header."""
    if call.caller.attempt is not None:
        return call.caller.attempt.task_id.job_id
    shown = read_lease(call.headers)
    return None if shown is None else await get_parent(call.runtime.ledger, shown)


def _is_placed(asked: JobRequest) -> bool:
    if asked.placed and asked.queue is not None:
        raise Invalid(
            "placed", f"goes without a queue, and {asked.queue!r} is one; give one of them"
        )
    return asked.placed


def _submission(
    asked: JobRequest, parent_job_id: int | None, span: Submitting, *, actor: str | None
) -> Submission:
    spec = JobSpec(**{name: getattr(asked, name) for name in JobSpec.__struct_fields__})
    inputs = asked.inputs
    return Submission(
        spec,
        None
        if inputs is None
        else tuple(decode_text(text, f"inputs[{i}]") for i, text in enumerate(inputs)),
        parent_job_id,
        local_name=asked.local_name,
        is_placed=_is_placed(asked),
        trace_parent=span.parent_of(asked.trace_id),
        actor=actor,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/jobs",
        submit_job,
        JobStatus,
        Role.SUBMIT,
        body=JobRequest,
        also={201: JobStatus, **CONFLICTS},
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        "/api/jobs:batch",
        submit_jobs,
        None,
        Role.SUBMIT,
        body=JobBatchRequest,
        also={201: JobBatchAnswer, **CONFLICTS},
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        "/api/jobs/{job_id}:rerun",
        rerun_job,
        RerunAnswer,
        Role.SUBMIT,
        body=RerunRequest,
        also=CONFLICTS,
    ),
    Route(
        "POST",
        "/api/jobs/{job_id}:resume",
        resume_job,
        ResumeAnswer,
        Role.SUBMIT,
        body=ResumeRequest,
        also=CONFLICTS,
        narrowing=Narrowing.FUNCTION,
    ),
)
