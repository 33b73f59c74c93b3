"""The routes of queues: their list, and to pause and resume one."""

from holdfast.api import convert
from holdfast.api.route import Call, Route
from holdfast.model.access.roles import Role
from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.services.waking.doorbell import Bell
from holdfast.store.reads.limits import queues
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed, QueueList


async def list_queues(call: Call[None, Nothing]) -> QueueList:
    """List every queue that is served or paused, or whose tasks wait, run or have just ended."""
    async with call.runtime.reads.transaction() as tx:
        view = await queues.list_queues(tx)
    rows = [view.queues[name] for name in sorted(view.queues)]
    return QueueList([convert.queue_status(row, view.now) for row in rows])


async def pause(call: Call[Nothing, Nothing]) -> Changed:
    """Hand out nothing more from a queue; pausing it twice is harmless."""
    await pause_queue(call.runtime.ledger, call.path["queue"], actor=call.actor)
    return Changed(True)


async def resume(call: Call[Nothing, Nothing]) -> Changed:
    """Hand out tasks of a queue again."""
    queue = call.path["queue"]
    await resume_queue(call.runtime.ledger, queue, actor=call.actor)
    call.runtime.doorbells.ring(Bell("queue", queue))
    return Changed(True)


ROUTES: tuple[Route, ...] = (
    Route("POST", "/api/queues/{queue:path}:pause", pause, Changed, Role.ADMIN, body=Nothing),
    Route("POST", "/api/queues/{queue:path}:resume", resume, Changed, Role.ADMIN, body=Nothing),
    Route("GET", "/api/queues", list_queues, QueueList, Role.READ),
)
