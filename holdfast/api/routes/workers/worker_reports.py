"""The routes by which an attempt ends, and for what it leaves behind: output and checkpoints."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from holdfast.api.attempts import AttemptMay
from holdfast.api.claiming import answer_along, check_along
from holdfast.api.errors import describe
from holdfast.api.route import Call, Narrowing, Route, decode_text
from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.keys import RequestKey, request_key
from holdfast.model.access.roles import Role
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import parse_task_id
from holdfast.model.work.outcomes import parse_status
from holdfast.operations.checkpoints import load_checkpoint, save_checkpoint
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.logs import Stretch, append_log, append_logs, lost_lease
from holdfast.operations.notes import Note, add_user_event
from holdfast.operations.usage import Usage, note_usage
from holdfast.services.runtime import Runtime
from holdfast.services.server_spans import now_ns, trace_completions
from holdfast.store.tables.work.tasks import NO_TIME
from holdfast.wire.answers import (
    CheckpointAnswer,
    CompletionAnswer,
    ErrorAnswer,
    LogAppendAnswer,
    LogBatchAnswer,
    LogBatchResult,
    TaskCompleteAnswer,
)
from holdfast.wire.events import WRITE_PATH, TaskEventRequest
from holdfast.wire.raw import raw
from holdfast.wire.requests import (
    CheckpointLoadRequest,
    CheckpointSaveRequest,
    LogAppendRequest,
    LogBatchRequest,
    Nothing,
    TaskCompleteRequest,
    TaskCompletion,
    UserEvent,
)

COMPLETIONS_MAX = 10_000
LOGS_MAX = 10_000
# What may stand beside a list of completions.
_WITH_MANY = ("worker_id", "completions", "idempotency_key", "claim")
Value = TypeVar("Value")


async def complete_tasks(call: Call[TaskCompleteRequest, Nothing]) -> TaskCompleteAnswer:
    """Record how attempts ended, and claim more if asked to; a repeat is answered as before."""
    asked, runtime = call.body, call.runtime
    reported = _completions(asked)
    completions = [_completion(item) for item in reported]
    alone = completions[0].fence if asked.completions is None else None
    if asked.worker_id is not None:
        await runtime.credentials.check(call.headers, asked.worker_id)
    await runtime.stops.see_caller(asked.worker_id, alone)
    began_ns = now_ns()
    caller = asked.worker_id or f"lease {asked.lease_token}"
    keyed = request_key("complete", caller, asked.idempotency_key, request=completions)
    request = check_along(call)
    answers, claimed = await _write(runtime, completions, keyed, request=request)
    trace_completions(runtime.ledger.specs, reported, answers, began_ns=began_ns)
    await note_usage(
        runtime.ledger,
        [
            Usage(completion.fence, item.usage, item.build)
            for completion, item, answer in zip(completions, reported, answers, strict=True)
            if (item.usage or item.build) and isinstance(answer, Completed)
        ],
    )
    results: list[CompletionAnswer] = []
    for item, answer in zip(reported, answers, strict=True):
        if isinstance(answer, Completed):
            results.append(CompletionAnswer(item.task_id, accepted=answer.accepted))
            continue
        if isinstance(answer, LeaseConflict):
            runtime.metrics.lease_conflicts.inc()
        results.append(CompletionAnswer(item.task_id, error=describe(answer)))
    is_alone = asked.completions is None and asked.claim is None  # or what was claimed were lost
    if is_alone and isinstance(answers[0], Exception):
        raise answers[0]
    return TaskCompleteAnswer(results, *answer_along(runtime, request, claimed, began_ns=began_ns))


async def _write(
    runtime: Runtime,
    completions: list[Completion],
    keyed: RequestKey | None,
    *,
    request: ClaimRequest | Exception | None,
) -> tuple[Sequence[Completed | Exception], list[Claim] | Exception | None]:
    """Record ends, and make the claim that came along; it fails by itself, once they are stored."""
    writers = runtime.writers
    if isinstance(request, ClaimRequest) and completions and keyed is None:
        return await writers.complete_and_claim(completions, request)
    # The usual way, without a key, shares its transaction with what others complete.
    completed: Sequence[Completed | Exception] = (
        await writers.complete(completions)
        if keyed is None
        else await complete(runtime.ledger, completions, keyed)
    )
    if not isinstance(request, ClaimRequest):
        return completed, None
    try:
        return completed, await writers.claim(request)
    except Exception as error:  # noqa: BLE001 - what has ended is stored, and has to be told
        return completed, error


async def take_log(call: Call[LogAppendRequest, Nothing]) -> LogAppendAnswer:
    """Keep a stretch of an attempt's output."""
    stretch = _stretch(call, call.body)
    await append_log(call.runtime.ledger, stretch)
    return LogAppendAnswer(stretch.start_offset + len(stretch.content))


async def take_logs(call: Call[LogBatchRequest, Nothing]) -> LogBatchAnswer:
    """Keep output of several attempts; a lease that is lost costs its own output only."""
    asked = call.body.logs
    if len(asked) > LOGS_MAX:
        raise Invalid("logs", f"has more than {LOGS_MAX}; send them in parts")
    stretches = [_stretch(call, each) for each in asked]
    lost = await append_logs(call.runtime.ledger, stretches)
    return LogBatchAnswer(
        [
            LogBatchResult(str(fence.task_id), error=describe(lost_lease(fence)))
            if fence in lost
            else LogBatchResult(str(fence.task_id), start_offset + len(content))
            for fence, start_offset, content in stretches
        ]
    )


def _stretch(call: Call[Any, Nothing], asked: LogAppendRequest) -> Stretch:
    return Stretch(call.fence_of(asked), asked.offset, asked.content)


async def keep_checkpoint(call: Call[CheckpointSaveRequest, Nothing]) -> CheckpointAnswer:
    """Keep what the next attempt of a task should find."""
    asked = call.body
    fence = call.fence_of(asked)
    await save_checkpoint(call.runtime.ledger, fence, decode_text(asked.checkpoint, "checkpoint"))
    return CheckpointAnswer(asked.checkpoint, asked.attempt)


async def take_event(call: Call[TaskEventRequest, Nothing]) -> Nothing:
    """Keep what user code has to say while its attempt runs."""
    asked = call.body
    fence = call.fence_of(asked)
    event = Note(asked.kind, decode_text(asked.payload, "payload"))
    await add_user_event(call.runtime.ledger, fence, event, idempotency_key=asked.idempotency_key)
    return Nothing()


async def find_checkpoint(call: Call[CheckpointLoadRequest, Nothing]) -> CheckpointAnswer:
    """Give back what an earlier attempt of a task has kept."""
    asked = call.body
    fence = call.fence_of(asked)
    found = await load_checkpoint(call.runtime.ledger, fence)
    return CheckpointAnswer(raw(found.text), found.attempt)


def _completions(asked: TaskCompleteRequest) -> list[TaskCompletion]:
    if asked.completions is not None:
        for field in msgspec.structs.fields(asked):
            is_alone = field.name not in _WITH_MANY
            if is_alone and getattr(asked, field.name) not in (None, msgspec.UNSET, []):
                raise Invalid(field.name, "goes without completions; give one of the two")
        if len(asked.completions) > COMPLETIONS_MAX:
            raise Invalid("completions", f"has more than {COMPLETIONS_MAX}; send them in parts")
        return asked.completions
    return [
        TaskCompletion(
            _given(asked.task_id, "task_id"),
            _given(asked.attempt, "attempt"),
            _given(asked.lease_token, "lease_token"),
            _given(asked.status, "status"),
            asked.exit_code,
            asked.error,
            asked.error_class,
            asked.stage,
            asked.result,
            asked.events,
            usage=asked.usage,
            build=asked.build,
            outputs=asked.outputs,
            run_ms=asked.run_ms or 0,
            put_off=asked.put_off,
        )
    ]


def _completion(item: TaskCompletion) -> Completion:
    result = None if item.result is msgspec.UNSET else decode_text(item.result, "result")
    return Completion(
        Fence(parse_task_id(item.task_id), item.attempt, item.lease_token),
        "succeeded" if item.status == "succeeded" else parse_status(item.status),
        item.exit_code,
        item.error,
        item.error_class,
        item.stage,
        result,
        tuple(map(_note, item.events)),
        item.start_reported,
        tuple(item.outputs),
        timedelta(milliseconds=item.run_ms) if item.run_ms else NO_TIME,
        item.put_off,
    )


def _note(event: UserEvent) -> Note:
    return Note(event.kind, decode_text(event.payload, "payload"))


def _given(value: Value | None, field: str) -> Value:
    if value is None:
        raise Invalid(field, "is missing; or give completions, a list")
    return value


CONFLICT = {409: ErrorAnswer}
ROUTES = (
    Route(
        "POST",
        "/internal/task-complete",
        complete_tasks,
        TaskCompleteAnswer,
        Role.WORKER,
        body=TaskCompleteRequest,
        also=CONFLICT,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/internal/task-log",
        take_log,
        LogAppendAnswer,
        Role.WORKER,
        body=LogAppendRequest,
        also=CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.ENDING_TOO,
    ),
    Route(
        "POST",
        "/internal/task-logs",
        take_logs,
        LogBatchAnswer,
        Role.WORKER,
        body=LogBatchRequest,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.ENDING_TOO,
    ),
    Route(
        "POST",
        WRITE_PATH,
        take_event,
        Nothing,
        Role.WORKER,
        body=TaskEventRequest,
        also=CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        "/internal/checkpoint-save",
        keep_checkpoint,
        CheckpointAnswer,
        Role.WORKER,
        body=CheckpointSaveRequest,
        also=CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.ENDING_TOO,
    ),
    Route(
        "POST",
        "/internal/checkpoint-load",
        find_checkpoint,
        CheckpointAnswer,
        Role.WORKER,
        body=CheckpointLoadRequest,
        also=CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
)
