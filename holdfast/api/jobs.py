"""The routes that change something for people: submit, cancel, dead letters, queues, draining."""

from typing import Any
from uuid import UUID

from holdfast.api.endpoint import Call, Endpoint, Reply, decode_text
from holdfast.api.reads_letters import letter_filter
from holdfast.errors import Invalid, NotFound
from holdfast.ledger.keys import recall, request_key
from holdfast.model.fence import Fence, check_fence
from holdfast.model.ids import TaskId, check_worker_id, parse_job_id, parse_task_id
from holdfast.model.spec import JobSpec, Submission
from holdfast.operations.dead_letters import Replay, dead_letter_task, discard, replay
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.operations.register import drain
from holdfast.operations.submitting.children import get_parent
from holdfast.operations.submitting.graph import submit_batch
from holdfast.services.server_spans import Submitting, submission_span
from holdfast.services.waking.doorbell import Bell
from holdfast.store.reads.dead_letters import list_open_ids
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.requests import (
    CancelRequest,
    DeadLetterRequest,
    DiscardRequest,
    JobBatchRequest,
    JobRequest,
    Nothing,
    ReplayRequest,
)
from holdfast.wire.status import (
    Changed,
    JobBatchAnswer,
    ReplayAnswer,
    Replayed,
    SubmittedJob,
)

REPLAY_MAX = 10_000
LEASE_HEADER = b"holdfast-lease"


async def submit_job(call: Call[JobRequest, Nothing]) -> Reply:
    """Take in a job: 201, or 200 when its idempotency key was seen before."""
    if call.body.local_name is not None:
        raise Invalid("local_name", "goes with graphs only; submit them to /api/jobs:batch")
    parent = await _parent_of(call)
    with submission_span(call.headers, call.body.trace_id) as span:
        submission = _submission(call.body, parent, span)
        submitted = await call.runtime.writers.submit(submission)
        span.describe(call.runtime.ledger.specs, submitted)
    answer = SubmittedJob(str(submitted.job_id), submitted.is_new, submission.num_tasks)
    return Reply(answer, 201 if submitted.is_new else 200)


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


async def stop_job(call: Call[CancelRequest, Nothing]) -> Changed:
    """Cancel a job: softly, with its grace, or hard."""
    job_id = parse_job_id(call.path["job_id"])
    asked = call.body
    changed = await cancel_job(
        call.runtime.ledger,
        job_id,
        asked.mode,
        actor=call.actor,
        reason=asked.reason,
        idempotency_key=asked.idempotency_key,
    )
    return Changed(changed)


async def stop_task(call: Call[CancelRequest, Nothing]) -> Changed:
    """Cancel one task: softly, with its grace, or hard."""
    task_id = parse_task_id(call.path["task_id"])
    asked = call.body
    changed = await cancel_task(
        call.runtime.ledger,
        task_id,
        asked.mode,
        actor=call.actor,
        reason=asked.reason,
        idempotency_key=asked.idempotency_key,
    )
    return Changed(changed)


async def bury_task(call: Call[DeadLetterRequest, Nothing]) -> Changed:
    """Move a task that has not finished to the dead letters, as an operator's decision."""
    task_id = parse_task_id(call.path["task_id"])
    await dead_letter_task(
        call.runtime.ledger,
        task_id,
        actor=call.actor,
        reason=call.body.reason,
        idempotency_key=call.body.idempotency_key,
    )
    return Changed(True)


async def replay_letters(call: Call[ReplayRequest, Nothing]) -> ReplayAnswer:
    """Submit dead letters again, by exact ids or by a filter; a dry run only tells which."""
    asked = call.body
    if (asked.task_ids is None) == (asked.filter is None):
        raise Invalid("task_ids", "give either task_ids or filter, one of the two")
    task_ids = (
        [parse_task_id(text, "task_ids") for text in asked.task_ids]
        if asked.task_ids is not None
        else await _find_letters(call)
    )
    ledger = call.runtime.ledger
    # What a filter matches changes with the replay: a repeat is known by what it asks for.
    request = [asked.task_ids, asked.filter, *(["rebind"] if asked.rebind_outputs else [])]
    keyed = request_key("replay", call.actor, asked.idempotency_key, request=request)
    if task_ids or asked.filter is None:
        replays = await replay(
            ledger,
            task_ids,
            actor=call.actor,
            dry_run=asked.dry_run,
            keyed=keyed,
            rebind=asked.rebind_outputs,
        )
    else:
        replays = await recall(ledger, None if asked.dry_run else keyed, list[Replay]) or []
    return ReplayAnswer(
        [
            Replayed(
                str(made.replay_of),
                [str(task_id) for task_id in made.task_ids],
                None if made.job_id is None else str(made.job_id),
            )
            for made in replays
        ],
        asked.dry_run,
    )


async def discard_letters(call: Call[DiscardRequest, Nothing]) -> Changed:
    """Settle dead letters without running them again; exact ids only."""
    task_ids = [parse_task_id(text, "task_ids") for text in call.body.task_ids]
    key = call.body.idempotency_key
    await discard(call.runtime.ledger, task_ids, actor=call.actor, idempotency_key=key)
    return Changed(True)


async def pause(call: Call[Nothing, Nothing]) -> Changed:
    """Hand out nothing more from a queue; pausing it twice is harmless."""
    await pause_queue(call.runtime.ledger, call.path["queue"], actor=call.actor)
    return Changed(True)


async def resume(call: Call[Nothing, Nothing]) -> Changed:
    """Hand out tasks of a queue again."""
    queue = call.path["queue"]
    await resume_queue(call.runtime.ledger, queue)
    call.runtime.doorbells.ring(Bell("queue", queue))
    return Changed(True)


async def drain_worker(call: Call[Nothing, Nothing]) -> Changed:
    """Ask a worker to finish what it has, take nothing more, and leave."""
    worker_id = check_worker_id(call.path["worker_id"])
    if not await drain(call.runtime.ledger, worker_id, actor=call.actor):
        raise NotFound("live worker", worker_id)
    call.runtime.stops.see(worker_id)
    await call.runtime.stops.note_workers()
    call.runtime.hint(worker_id)  # one of placed work is told by its next call
    return Changed(True)


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


async def _find_letters(call: Call[ReplayRequest, Nothing]) -> list[TaskId]:
    assert call.body.filter is not None
    wanted = letter_filter(call.body.filter)
    async with call.runtime.reads.transaction() as tx:
        return await list_open_ids(tx, wanted, count_max=REPLAY_MAX)


_ERRORS = {409: ErrorAnswer}
ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/jobs",
        submit_job,
        SubmittedJob,
        body=JobRequest,
        also={201: SubmittedJob, **_ERRORS},
    ),
    Endpoint(
        "POST",
        "/api/jobs:batch",
        submit_jobs,
        None,
        body=JobBatchRequest,
        also={201: JobBatchAnswer, **_ERRORS},
    ),
    Endpoint(
        "POST", "/api/jobs/{job_id}:cancel", stop_job, Changed, body=CancelRequest, also=_ERRORS
    ),
    Endpoint(
        "POST", "/api/tasks/{task_id}:cancel", stop_task, Changed, body=CancelRequest, also=_ERRORS
    ),
    Endpoint(
        "POST",
        "/api/tasks/{task_id}:dead-letter",
        bury_task,
        Changed,
        body=DeadLetterRequest,
        also=_ERRORS,
    ),
    Endpoint(
        "POST",
        "/api/dead-letters:replay",
        replay_letters,
        ReplayAnswer,
        body=ReplayRequest,
        also=_ERRORS,
    ),
    Endpoint(
        "POST",
        "/api/dead-letters:discard",
        discard_letters,
        Changed,
        body=DiscardRequest,
        also=_ERRORS,
    ),
    Endpoint("POST", "/api/queues/{queue:path}:pause", pause, Changed, body=Nothing),
    Endpoint("POST", "/api/queues/{queue:path}:resume", resume, Changed, body=Nothing),
    Endpoint("POST", "/api/workers/{worker_id:path}:drain", drain_worker, Changed, body=Nothing),
)
