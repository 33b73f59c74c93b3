"""The routes that read workers, queues and dead letters."""

from holdfast.api import convert
from holdfast.api.endpoint import Call, Endpoint
from holdfast.api.pages import TaskPlace, WorkerPlace, check_page_size, read_token, write_token
from holdfast.api.reads_letters import letter_filter
from holdfast.model.ids import TaskId, check_worker_id, parse_task_id
from holdfast.store.reads import dead_letters, queues, workers
from holdfast.wire.requests import DeadLetterListQuery, Nothing, PageQuery
from holdfast.wire.status import (
    DeadLetter,
    DeadLetterPage,
    QueueList,
    WorkerList,
    WorkerStatus,
)


async def list_workers(call: Call[None, PageQuery]) -> WorkerList:
    """List the workers, the living first, with their health and what they hold."""
    asked = call.query
    page_size, place = check_page_size(asked.page_size), read_token(asked.page_token, WorkerPlace)
    after = workers.FIRST_WORKER
    if place is not None:
        after = workers.WorkerPosition(place.illness, place.worker_id)
    async with call.runtime.reads.snapshot() as tx:
        page = await workers.list_workers(tx, after=after, page_size=page_size)
        ids = [worker.worker_id for worker in page.rows]
        loads = await workers.read_loads(tx, call.runtime.ledger.specs, ids)
    following = None if page.next_after is None else WorkerPlace(*page.next_after)
    shown = [convert.worker_status(worker, loads[worker.worker_id]) for worker in page.rows]
    return WorkerList(shown, write_token(following))


async def show_worker(call: Call[None, Nothing]) -> WorkerStatus:
    """Read one worker."""
    worker_id = check_worker_id(call.path["worker_id"])
    async with call.runtime.reads.snapshot() as tx:
        worker = await workers.get_worker(tx, worker_id)
        loads = await workers.read_loads(tx, call.runtime.ledger.specs, [worker_id])
    return convert.worker_status(worker, loads[worker_id])


async def list_queues(call: Call[None, Nothing]) -> QueueList:
    """List every queue that is paused, or whose tasks wait, run or have just finished."""
    async with call.runtime.reads.transaction() as tx:
        view = await queues.list_queues(tx)
    rows = [view.queues[name] for name in sorted(view.queues)]
    return QueueList([convert.queue_status(row, view.now) for row in rows])


async def show_dead_letters(call: Call[None, DeadLetterListQuery]) -> DeadLetterPage:
    """List dead letters by id: those that wait for a decision, or with `settled` all of them."""
    asked = call.query
    wanted = letter_filter(asked, open_only=not asked.settled)
    page_size, place = check_page_size(asked.page_size), read_token(asked.page_token, TaskPlace)
    after = dead_letters.FIRST_DEAD_LETTER
    if place is not None:
        after = TaskId(place.job_id, place.task_index)
    async with call.runtime.reads.transaction() as tx:
        page = await dead_letters.list_dead_letters(tx, wanted, after=after, page_size=page_size)
    following = None if page.next_after is None else TaskPlace(*page.next_after)
    letters = [convert.dead_letter(row) for row in page.rows]
    return DeadLetterPage(letters, write_token(following))


async def show_dead_letter(call: Call[None, Nothing]) -> DeadLetter:
    """Read one dead letter."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        return convert.dead_letter(await dead_letters.get_dead_letter(tx, task_id))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/workers", list_workers, WorkerList, query=PageQuery),
    Endpoint("GET", "/api/workers/{worker_id:path}", show_worker, WorkerStatus),
    Endpoint("GET", "/api/queues", list_queues, QueueList),
    Endpoint(
        "GET", "/api/dead-letters", show_dead_letters, DeadLetterPage, query=DeadLetterListQuery
    ),
    Endpoint("GET", "/api/dead-letters/{task_id}", show_dead_letter, DeadLetter),
)
