"""The routes by which people see workers and have one drained, and by which one drains itself."""

from typing import Any

from holdfast.api import convert
from holdfast.api.page_tokens import WorkerToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Narrowing, Route
from holdfast.errors import NotFound
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import check_worker_id
from holdfast.operations.register import drain
from holdfast.rules.reading.attention import RECENT
from holdfast.store.reads.upkeep.samples import count_ends_by_worker
from holdfast.store.reads.workers import workers
from holdfast.store.tables.upkeep.samples import WorkerEnds
from holdfast.wire.cluster import WorkerDrainRequest
from holdfast.wire.requests import Nothing, PageQuery
from holdfast.wire.status import Changed, WorkerList, WorkerStatus


async def list_workers(call: Call[None, PageQuery]) -> WorkerList:
    """List the workers, the living first, with their health and what they hold."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, WorkerToken)
    after = workers.FIRST_WORKER
    if token is not None:
        after = workers.WorkerPosition(token.illness, token.worker_id)
    async with call.runtime.reads.snapshot() as tx:
        page = await workers.list_workers(tx, after=after, page_size=page_size)
        ids = [worker.worker_id for worker in page.rows]
        loads = await workers.read_loads(tx, call.runtime.ledger.specs, ids)
        ends = await count_ends_by_worker(tx, await tx.now() - RECENT, ids)
    following = None if page.next_after is None else WorkerToken(*page.next_after)
    shown = [
        convert.worker_status(
            worker, loads[worker.worker_id], ends.get(worker.worker_id, WorkerEnds())
        )
        for worker in page.rows
    ]
    return WorkerList(shown, write_token(following))


async def show_worker(call: Call[None, Nothing]) -> WorkerStatus:
    """Read one worker."""
    worker_id = check_worker_id(call.path["worker_id"])
    async with call.runtime.reads.snapshot() as tx:
        worker = await workers.get_worker(tx, worker_id)
        loads = await workers.read_loads(tx, call.runtime.ledger.specs, [worker_id])
        ends = await count_ends_by_worker(tx, await tx.now() - RECENT, [worker_id])
    return convert.worker_status(worker, loads[worker_id], ends.get(worker_id, WorkerEnds()))


async def drain_worker(call: Call[Nothing, Nothing]) -> Changed:
    """Ask a worker to finish what it has, take nothing more, and leave."""
    worker_id = check_worker_id(call.path["worker_id"])
    return await _ask_to_leave(call, worker_id, actor=call.actor, is_own=False)


async def let_drain(call: Call[WorkerDrainRequest, Nothing]) -> Changed:
    """Note that a worker takes nothing more, by its own word."""
    worker_id = check_worker_id(call.body.worker_id)
    await call.runtime.credentials.check(call.headers, worker_id)
    return await _ask_to_leave(call, worker_id, actor=worker_id, is_own=True)


async def _ask_to_leave(
    call: Call[Any, Nothing], worker_id: str, *, actor: str, is_own: bool
) -> Changed:
    """Note that a worker is to leave, and have it hear of that."""
    if not await drain(call.runtime.ledger, worker_id, actor=actor, is_own=is_own):
        raise NotFound("live worker", worker_id)
    call.runtime.stops.see(worker_id)
    await call.runtime.stops.note_workers()
    call.runtime.hint(worker_id)  # one of placed work is told by its next call
    return Changed(True)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/internal/worker-drain",
        let_drain,
        Changed,
        Role.WORKER,
        body=WorkerDrainRequest,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "POST",
        "/api/workers/{worker_id:path}:drain",
        drain_worker,
        Changed,
        Role.ADMIN,
        body=Nothing,
    ),
    Route("GET", "/api/workers", list_workers, WorkerList, Role.READ, query=PageQuery),
    Route("GET", "/api/workers/{worker_id:path}", show_worker, WorkerStatus, Role.READ),
)
