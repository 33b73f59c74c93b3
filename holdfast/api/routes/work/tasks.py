"""The routes of tasks: their list, one of them, why it waits, its input, its cancel."""

import msgspec

from holdfast.api import convert
from holdfast.api.attempts import AttemptMay
from holdfast.api.explain import explain_task
from holdfast.api.job_terms import describe_terms, show_terms
from holdfast.api.page_tokens import IndexToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Route
from holdfast.api.task_statuses import count_ahead, list_statuses, read_facts, why_pending
from holdfast.api.what_if import answer_what_if, show_reason, suppose_facts
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import TaskId, parse_job_id, parse_task_id
from holdfast.model.work.states import TaskState, parse_state
from holdfast.operations.ending.cancel import cancel_task
from holdfast.rules.placement.what_if import suppose
from holdfast.store.database import Transaction
from holdfast.store.reads.work import attempts, dead_letters, jobs, tasks
from holdfast.store.reads.work.attempts import AttemptRow
from holdfast.store.reads.work.signals import list_kept
from holdfast.store.reads.work.terms import find_terms
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.explanations import ExplainQuery, Explanation
from holdfast.wire.lists import TaskInput
from holdfast.wire.raw import raw
from holdfast.wire.requests import CancelRequest, Nothing, TaskListQuery
from holdfast.wire.status import Changed, TaskPage, TaskStatus

ATTEMPTS_SHOWN_MAX = 1000


async def list_tasks(call: Call[None, TaskListQuery]) -> TaskPage:
    """List the tasks of a job by index; a short page with a token is not the last one."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    state = None if asked.state is None else parse_state(asked.state)
    page_size = check_page_size(asked.page_size)
    token = read_token(asked.page_token, IndexToken)
    after = asked.task_from - 1 if token is None else token.index
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        page = await tasks.list_tasks(tx, job_id, state, after=after, page_size=page_size)
        facts = await read_facts(tx, job, page.rows)
    shown = await list_statuses(call.runtime.reasons, job, page.rows, facts=facts)
    following = None if page.next_after is None else IndexToken(page.next_after)
    return TaskPage(shown, write_token(following))


async def show_task(call: Call[None, Nothing]) -> TaskStatus:
    """Read one task with the history of its attempts."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        job, task = await tasks.get_task(tx, task_id)
        attempts = await _read_attempts(tx, task_id)
        facts = await read_facts(tx, job, [task], ahead=await count_ahead(tx, job, task))
    [status] = await list_statuses(call.runtime.reasons, job, [task], facts=facts)
    now = facts.condition.now
    return msgspec.structs.replace(
        status, attempts=[convert.task_attempt(row, task, now) for row in attempts]
    )


async def _read_attempts(tx: Transaction, task_id: TaskId) -> list[AttemptRow]:
    return await attempts.list_attempts(tx, task_id, page_size=ATTEMPTS_SHOWN_MAX)


async def explain(call: Call[None, ExplainQuery]) -> Explanation:
    """Explain in sentences why a task stands where it stands, and answer what if.

    What it would wait for if each task of its job asked for other amounts, or if a worker were not
    there; from a snapshot, and nothing is changed.
    """
    task_id = parse_task_id(call.path["task_id"])
    supposed = suppose(**msgspec.structs.asdict(call.query))
    async with call.runtime.reads.transaction() as tx:
        _, task = await tasks.get_task(tx, task_id)
        job = await jobs.get_job_with_spec(tx, task_id.job_id)
        attempts = await _read_attempts(tx, task_id)
        facts = await read_facts(tx, job, [task], ahead=await count_ahead(tx, job, task))
        kept = [] if task.finished_at else await list_kept(tx, task_id)
        terms = await find_terms(tx, job)
        letter = None
        if task.state == TaskState.DEAD_LETTERED:
            letter = await dead_letters.get_dead_letter(tx, task_id)
        if supposed is not None:
            supposed_facts = await suppose_facts(tx, job, task, facts=facts, supposed=supposed)
    [reason] = await why_pending(call.runtime.reasons, job, [task], facts=facts)
    what_if = None
    if supposed is not None:
        what_if = await answer_what_if(
            call.runtime.reasons, job, task, facts=supposed_facts, supposed=supposed
        )
    lines = explain_task(
        job,
        task,
        facts.condition,
        attempts=attempts,
        reason=reason,
        letter=letter,
        what_if=[] if what_if is None else what_if.lines,
        kept=kept,
        terms=describe_terms(
            show_terms(job, terms, shows_key=Role.CONTENT in call.caller.roles), terms, task
        ),
    )
    return Explanation(
        str(task_id),
        convert.task_state(task.state),
        lines,
        None if reason is None else show_reason(reason),
        None if what_if is None else what_if.answer,
    )


async def show_input(call: Call[None, Nothing]) -> TaskInput:
    """Read what a task was given."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        return TaskInput(str(task_id), raw(await tasks.get_input(tx, task_id)))


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


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/jobs/{job_id}/tasks",
        list_tasks,
        TaskPage,
        Role.READ,
        query=TaskListQuery,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        "/api/tasks/{task_id}:cancel",
        stop_task,
        Changed,
        Role.SUBMIT,
        body=CancelRequest,
        also={409: ErrorAnswer},
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "GET",
        "/api/tasks/{task_id}",
        show_task,
        TaskStatus,
        Role.READ,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "GET", "/api/tasks/{task_id}/explain", explain, Explanation, Role.READ, query=ExplainQuery
    ),
    Route("GET", "/api/tasks/{task_id}/input", show_input, TaskInput, Role.CONTENT),
)
