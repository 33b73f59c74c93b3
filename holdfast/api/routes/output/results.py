"""The routes that read what tasks have returned."""

import asyncio
from collections import defaultdict
from typing import NamedTuple

from holdfast.api import convert
from holdfast.api.attempts import AttemptMay
from holdfast.api.page_tokens import (
    IndexToken,
    ResultToken,
    check_page_size,
    read_token,
    write_token,
)
from holdfast.api.route import Call, Route, check_wait
from holdfast.errors import Invalid
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import TaskId, parse_job_id, parse_task_id
from holdfast.model.work.states import TaskState
from holdfast.services.waking.doorbell import Bell
from holdfast.store.database import Database, Transaction
from holdfast.store.reads.work import jobs, tasks
from holdfast.store.reads.work.fills import find_fills
from holdfast.store.reads.work.tasks import ResultRow
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
    """List how the tasks of a job stand and what they returned, by index.

    A job that continues another has the results of both: where a task did not succeed there, that
    of the task which ran it again.
    """
    job_id = parse_job_id(call.path["job_id"])
    return await read_result_page(call.runtime.reads, job_id, call.query)


async def read_result_page(reads: Database, job_id: int, asked: PageQuery) -> ResultPage:
    """Read a page of what the tasks of a job returned."""
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, ResultToken)
    async with reads.transaction() as tx:
        line = await tasks.list_continued(tx, job_id)
        first = await jobs.get_job(tx, line[0])
        after = [-1] * len(line) if token is None else [token.index, *token.continued]
        if len(after) != len(line):
            raise Invalid("page_token", "is not one of this list; begin again without it")
        # One more than asked for: what it is shows whether there is another page.
        found = await _read_line(tx, line, after, count=page_size + 1)
    page = found[:page_size]
    following: IndexToken | None = None
    if len(found) > page_size:
        index, *continued = _find_last(page, after)
        following = ResultToken(index, continued) if continued else IndexToken(index)
    results = [convert.task_result(str(each.task_id), each.row) for each in page]
    is_list = first.num_tasks > 1 or any(each.row.is_fan_out for each in page)
    return ResultPage(results, write_token(following), is_list)


class _Shown(NamedTuple):
    """What is shown of one task of the first job: that of the last to run it, and all that did."""

    task_id: TaskId
    row: ResultRow
    indexes: list[int]


async def _read_line(
    tx: Transaction, line: list[int], after: list[int], *, count: int
) -> list[_Shown]:
    """Read results of the first job; each next job has, in order, what did not succeed before.

    But for what replays of single dead letters had made good by then: that stands in its place.
    """
    rows = await tasks.list_results(tx, line[0], after=after[0], page_size=count)
    shown = [_Shown(TaskId(line[0], row.task_index), row, [row.task_index]) for row in rows]
    for before, job_id, last in zip(line, line[1:], after[1:], strict=False):
        await _fill(tx, shown, before=before, job_id=job_id)
        holes = [n for n, each in enumerate(shown) if each.row.state != TaskState.SUCCEEDED]
        rows = await tasks.list_results(tx, job_id, after=last, page_size=len(holes))
        for n, row in zip(holes, rows, strict=True):
            indexes = [*shown[n].indexes, row.task_index]
            shown[n] = _Shown(TaskId(job_id, row.task_index), row, indexes)
    return shown


async def _fill(tx: Transaction, shown: list[_Shown], *, before: int, job_id: int) -> None:
    """Put what replays have made good of a job into its holes, unless a later job runs them all."""
    first, later = await jobs.get_job(tx, before), await jobs.get_job(tx, job_id)
    if later.num_tasks == first.num_tasks - first.succeeded:
        return
    fills = await find_fills(tx, before, before=job_id)
    by_job: dict[int, dict[int, int]] = defaultdict(dict)
    for n, each in enumerate(shown):
        filled = fills.tasks.get(each.task_id.task_index) if each.task_id.job_id == before else None
        if filled is not None and each.row.state != TaskState.SUCCEEDED:
            by_job[filled.job_id][filled.task_index] = n
    for replay, places in by_job.items():
        begin, end = min(places), max(places)
        # In order, and all of the job: what lies between them and is not wanted did not succeed.
        rows = await tasks.list_results(tx, replay, after=begin - 1, page_size=end - begin + 1)
        for row in rows:
            if row.task_index in places:
                n = places[row.task_index]
                shown[n] = _Shown(TaskId(replay, row.task_index), row, shown[n].indexes)


def _find_last(page: list[_Shown], after: list[int]) -> list[int]:
    """Find the last task of each job that a page has got to."""
    last = list(after)
    for each in page:
        last[: len(each.indexes)] = each.indexes
    return last


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/tasks/{task_id}/result",
        show_result,
        TaskResult,
        Role.CONTENT,
        query=ResultQuery,
        waits=True,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "GET",
        "/api/jobs/{job_id}/results",
        list_results,
        ResultPage,
        Role.CONTENT,
        query=PageQuery,
        attempt=AttemptMay.LIVE,
    ),
)
