"""The routes by which an attempt ends, and for what it leaves behind: output and checkpoints."""

from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from holdfast.api.attempts import AttemptMay
from holdfast.api.errors import describe
from holdfast.api.route import Call, Narrowing, Route, decode_text
from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.keys import request_key
from holdfast.model.fence import Fence
from holdfast.model.ids import parse_task_id
from holdfast.model.outcomes import parse_status
from holdfast.model.roles import Role
from holdfast.operations.checkpoints import load_checkpoint, save_checkpoint
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.logs import Stretch, append_log, append_logs, lost_lease
from holdfast.operations.notes import Note, add_user_event
from holdfast.operations.usage import Usage, note_usage
from holdfast.services.server_spans import now_ns, trace_completions
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
)

COMPLETIONS_MAX = 10_000
LOGS_MAX = 10_000
Value = TypeVar("Value")


async def complete_tasks(call: Call[TaskCompleteRequest, Nothing]) -> TaskCompleteAnswer:
    """Record how attempts ended; repeating a completion is answered as the first time."""
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
    # The usual way, without a key, shares its transaction with what others complete.
    answers = (
        await runtime.writers.complete(completions)
        if keyed is None
        else [*await complete(runtime.ledger, completions, keyed)]
    )
    trace_completions(runtime.ledger.specs, reported, answers, began_ns=began_ns)
    await note_usage(
        runtime.ledger,
        [
            Usage(completion.fence, item.usage, item.build)
            for completion, item, answer in zip(completions, reported, answers, strict=True)
            if isinstance(answer, Completed)
        ],
    )
    results: list[CompletionAnswer] = []
    for completion, answer in zip(completions, answers, strict=True):
        task_id = str(completion.fence.task_id)
        if isinstance(answer, Completed):
            results.append(CompletionAnswer(task_id, accepted=answer.accepted))
            continue
        if isinstance(answer, LeaseConflict):
            runtime.metrics.lease_conflicts.inc()
        results.append(CompletionAnswer(task_id, error=describe(answer)))
    if asked.completions is None and isinstance(answers[0], Exception):
        raise answers[0]
    return TaskCompleteAnswer(results)


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
            is_alone = field.name not in ("worker_id", "completions", "idempotency_key")
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
        )
    ]


def _completion(item: TaskCompletion) -> Completion:
    return Completion(
        Fence(parse_task_id(item.task_id), item.attempt, item.lease_token),
        parse_status(item.status),
        item.exit_code,
        item.error,
        item.error_class,
        item.stage,
        None if item.result is msgspec.UNSET else decode_text(item.result, "result"),
        tuple(Note(event.kind, decode_text(event.payload, "payload")) for event in item.events),
        item.start_reported,
        tuple(item.outputs),
        timedelta(milliseconds=item.run_ms),
    )


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
