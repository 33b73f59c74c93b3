"""The routes that read tasks: their state, attempts, output and results."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from holdfast.api import convert
from holdfast.api.endpoint import Call, Endpoint
from holdfast.api.explain import explain_task, pending_reason
from holdfast.api.pages import IndexPlace, check_page_size, read_token, write_token
from holdfast.api.work import check_wait
from holdfast.errors import NotFound
from holdfast.model.ids import TaskId, parse_job_id, parse_task_id
from holdfast.model.states import TaskState, parse_state
from holdfast.operations.logs import Log, read_log
from holdfast.rules.placement.scheduler import Reason
from holdfast.services.reasons import Reasons
from holdfast.services.waking.doorbell import Bell
from holdfast.store.database import Transaction
from holdfast.store.reads import attempts, dead_letters, graph, jobs, queues, tasks
from holdfast.store.reads.attempts import AccountRow, AttemptRow
from holdfast.store.reads.jobs import JobRow
from holdfast.store.reads.queues import QueueCondition
from holdfast.store.reads.tasks import TaskRow
from holdfast.wire.requests import LogQuery, Nothing, PageQuery, ResultQuery, TaskListQuery
from holdfast.wire.status import (
    AttemptList,
    Explanation,
    LogChunk,
    PendingReason,
    ResultPage,
    TaskPage,
    TaskResult,
    TaskStatus,
)

ATTEMPTS_SHOWN_MAX = 1000
# Only the ends of jobs ring; a task that ends before its job is noticed by looking again.
LOOK_SECONDS = 0.25
FOLLOW_SECONDS = 0.3
NO_ATTEMPT = -1
UNMET_TOLD_MAX = 20


class Facts(NamedTuple):
    """What is known of some tasks of a job beyond their rows; of placed ones, by index.

    `standing` are those that stand in line, and whom each keeps away from; `unmet` are the first
    of the jobs that theirs still waits for.
    """

    line: QueueCondition
    ahead: int | None
    standing: dict[int, str | None]
    accounts: dict[int, AccountRow]
    unmet: list[int]


async def list_tasks(call: Call[None, TaskListQuery]) -> TaskPage:
    """List the tasks of a job by index; a short page with a token is not the last one."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    state = None if asked.state is None else parse_state(asked.state)
    page_size = check_page_size(asked.page_size)
    place = read_token(asked.page_token, IndexPlace)
    after = asked.task_from - 1 if place is None else place.index
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        page = await tasks.list_tasks(tx, job_id, state, after=after, page_size=page_size)
        facts = await read_facts(tx, job, page.rows)
    shown = await tell_tasks(call.runtime.reasons, job, page.rows, facts=facts)
    following = None if page.next_after is None else IndexPlace(page.next_after)
    return TaskPage(shown, write_token(following))


async def read_facts(
    tx: Transaction, job: JobRow, rows: Sequence[TaskRow], *, ahead: int | None = None
) -> Facts:
    """Read what else there is to tell of tasks of one job."""
    line = await queues.read_condition(tx, job.queue)
    unmet = await graph.list_unmet(tx, job.job_id, UNMET_TOLD_MAX) if job.unmet else []
    if job.queue is not None:
        return Facts(line, ahead, {}, {}, unmet)
    waiting = [row.task_index for row in rows if row.state == TaskState.PENDING]
    is_over = job.cancel_mode is not None or job.finished_at is not None
    standing = {}
    if waiting and not is_over:
        standing = await queues.read_standing(tx, job.job_id, waiting)
    current = [convert.current_attempt_of(row) for row in rows]
    tried = [each for each in current if each.attempt != NO_ATTEMPT]
    accounts = await attempts.read_accounts(tx, job.job_id, tried) if tried else {}
    return Facts(line, ahead, standing, accounts, unmet)


async def tell_tasks(
    reasons: Reasons, job: JobRow, rows: Sequence[TaskRow], *, facts: Facts
) -> list[TaskStatus]:
    """Describe tasks of one job, the pending ones with what they wait for."""
    found = await _why_pending(reasons, job, rows, facts=facts)
    return [
        convert.task_status(
            row,
            now=facts.line.now,
            pending_reason=None if reason is None else reason.message,
            account=facts.accounts.get(row.task_index, AccountRow()),
        )
        for row, reason in zip(rows, found, strict=True)
    ]


async def _why_pending(
    reasons: Reasons, job: JobRow, rows: Sequence[TaskRow], *, facts: Facts
) -> list[Reason | None]:
    """Say what each of some tasks waits for; what holds for a whole line is found out once."""
    standing = facts.standing
    placing: dict[str | None, Reason] = {}
    if standing:
        placing = await reasons.find(job.job_id, set(standing.values()))
    by_task = {index: placing.get(avoid) for index, avoid in standing.items()}
    return [
        pending_reason(
            job,
            row,
            facts.line,
            ahead=facts.ahead,
            placing=by_task.get(row.task_index),
            unmet=facts.unmet,
        )
        for row in rows
    ]


async def show_task(call: Call[None, Nothing]) -> TaskStatus:
    """Read one task with the history of its attempts."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        job, task = await tasks.get_task(tx, task_id)
        attempts = await _read_attempts(tx, task_id)
        facts = await read_facts(tx, job, [task], ahead=await _count_ahead(tx, job, task))
    [told] = await tell_tasks(call.runtime.reasons, job, [task], facts=facts)
    now = facts.line.now
    return msgspec.structs.replace(
        told, attempts=[convert.task_attempt(row, task, now) for row in attempts]
    )


async def _read_attempts(tx: Transaction, task_id: TaskId) -> list[AttemptRow]:
    return await attempts.list_attempts(tx, task_id, page_size=ATTEMPTS_SHOWN_MAX)


async def _count_ahead(tx: Transaction, job: JobRow, task: TaskRow) -> int | None:
    if task.state != TaskState.PENDING or job.queue is None or job.unmet:
        return None
    return await queues.count_ahead(tx, job, task)


async def list_attempts(call: Call[None, PageQuery]) -> AttemptList:
    """List the attempts of a task, the oldest first."""
    task_id, page_size = parse_task_id(call.path["task_id"]), check_page_size(call.query.page_size)
    place = read_token(call.query.page_token, IndexPlace)
    after = -1 if place is None else place.index
    async with call.runtime.reads.transaction() as tx:
        job, task = await tasks.get_task(tx, task_id)
        found = await attempts.list_attempts(tx, task_id, after=after, page_size=page_size + 1)
        line = await queues.read_condition(tx, job.queue)
    page = found[:page_size]
    following = IndexPlace(page[-1].attempt) if len(found) > page_size else None
    shown = [convert.task_attempt(row, task, line.now) for row in page]
    return AttemptList(shown, write_token(following))


async def explain(call: Call[None, Nothing]) -> Explanation:
    """Explain in sentences why a task stands where it stands."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        _, task = await tasks.get_task(tx, task_id)
        job = await jobs.get_job_with_spec(tx, task_id.job_id)
        attempts = await _read_attempts(tx, task_id)
        facts = await read_facts(tx, job, [task], ahead=await _count_ahead(tx, job, task))
        letter = None
        if task.state == TaskState.DEAD_LETTERED:
            letter = await dead_letters.get_dead_letter(tx, task_id)
    [reason] = await _why_pending(call.runtime.reasons, job, [task], facts=facts)
    lines = explain_task(job, task, facts.line, attempts=attempts, reason=reason, letter=letter)
    told = None if reason is None else PendingReason(reason.code, reason.message, reason.details)
    return Explanation(str(task_id), convert.task_state(task.state), lines, told)


async def show_result(call: Call[None, ResultQuery]) -> TaskResult:
    """Read what a task returned: at once, or when it has finished or `wait_ms` are over."""
    task_id = parse_task_id(call.path["task_id"])
    clock, doorbells = asyncio.get_running_loop().time, call.runtime.doorbells
    ends_at = clock() + check_wait(call.query.wait_ms) / 1000
    reads = call.runtime.reads
    with doorbells.listen([Bell("job", str(task_id.job_id))]) as listener:
        while True:
            async with reads.transaction() as tx:
                found = await tasks.get_result(tx, task_id)
            remaining = ends_at - clock()
            if found.is_finished or remaining <= 0 or doorbells.is_closed:
                return convert.task_result(str(task_id), found)
            await listener.wait(min(remaining, LOOK_SECONDS))
            reads = call.runtime.follows


async def list_results(call: Call[None, PageQuery]) -> ResultPage:
    """List how the tasks of a job stand and what they returned, by index."""
    job_id, page_size = parse_job_id(call.path["job_id"]), check_page_size(call.query.page_size)
    place = read_token(call.query.page_token, IndexPlace)
    after = -1 if place is None else place.index
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        found = await tasks.list_results(tx, job_id, after=after, page_size=page_size + 1)
    page = found[:page_size]
    following = IndexPlace(page[-1].task_index) if len(found) > page_size else None
    results = [convert.task_result(str(TaskId(job_id, row.task_index)), row) for row in page]
    is_list = job.num_tasks > 1 or any(row.is_fan_out for row in page)
    return ResultPage(results, write_token(following), is_list)


async def show_log(call: Call[None, LogQuery]) -> LogChunk:
    """Read the output of an attempt from an offset on; `follow` waits up to `wait_ms` for more."""
    task_id, asked = parse_task_id(call.path["task_id"]), call.query
    clock = asyncio.get_running_loop().time
    ends_at = clock() + (check_wait(asked.wait_ms) / 1000 if asked.follow else 0)
    while True:
        log = await _read_log(call, task_id)
        remaining = ends_at - clock()
        if log.content or log.is_complete or remaining <= 0 or call.runtime.is_stopping:
            break
        await asyncio.sleep(min(remaining, FOLLOW_SECONDS))
    next_offset = log.start_offset + len(log.content)
    return LogChunk(
        str(task_id), log.attempt, log.start_offset, next_offset, log.content, log.is_complete
    )


async def _read_log(call: Call[None, LogQuery], task_id: TaskId) -> Log:
    """Read a log; that of a task without any attempt is empty."""
    asked = call.query
    reads = call.runtime.follows if asked.follow else call.runtime.reads
    read = partial(read_log, reads, task_id, attempt=asked.attempt, start_offset=asked.offset)
    try:
        return await read()
    except NotFound:
        async with reads.transaction() as tx:
            _, task = await tasks.get_task(tx, task_id)
        if asked.attempt is not None:
            raise
    # One may have begun between the two looks, and be over, too.
    if convert.current_attempt(task) != NO_ATTEMPT:
        return await read()
    return Log(NO_ATTEMPT, asked.offset, b"", is_complete=task.finished_at is not None)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/jobs/{job_id}/tasks", list_tasks, TaskPage, query=TaskListQuery),
    Endpoint("GET", "/api/jobs/{job_id}/results", list_results, ResultPage, query=PageQuery),
    Endpoint("GET", "/api/tasks/{task_id}", show_task, TaskStatus),
    Endpoint("GET", "/api/tasks/{task_id}/attempts", list_attempts, AttemptList, query=PageQuery),
    Endpoint("GET", "/api/tasks/{task_id}/explain", explain, Explanation),
    Endpoint(
        "GET", "/api/tasks/{task_id}/result", show_result, TaskResult, query=ResultQuery, waits=True
    ),
    Endpoint("GET", "/api/tasks/{task_id}/logs", show_log, LogChunk, query=LogQuery, waits=True),
)
