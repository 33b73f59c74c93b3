"""The routes that read what tasks have returned."""

import asyncio

from holdfast.api import convert
from holdfast.api.page_tokens import IndexToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Route, check_wait
from holdfast.model.ids import TaskId, parse_job_id, parse_task_id
from holdfast.services.waking.doorbell import Bell
from holdfast.store.reads import jobs, tasks
from holdfast.wire.requests import PageQuery, ResultQuery
from holdfast.wire.status import ResultPage, TaskResult

# Only the ends of jobs ring; a task that ends before its job is noticed by looking again.
LOOK_SECONDS = 0.25


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
    token = read_token(call.query.page_token, IndexToken)
    after = -1 if token is None else token.index
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        found = await tasks.list_results(tx, job_id, after=after, page_size=page_size + 1)
    page = found[:page_size]
    following = IndexToken(page[-1].task_index) if len(found) > page_size else None
    results = [convert.task_result(str(TaskId(job_id, row.task_index)), row) for row in page]
    is_list = job.num_tasks > 1 or any(row.is_fan_out for row in page)
    return ResultPage(results, write_token(following), is_list)


ROUTES: tuple[Route, ...] = (
    Route(
        "GET", "/api/tasks/{task_id}/result", show_result, TaskResult, query=ResultQuery, waits=True
    ),
    Route("GET", "/api/jobs/{job_id}/results", list_results, ResultPage, query=PageQuery),
)
