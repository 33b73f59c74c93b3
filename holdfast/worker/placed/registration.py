"""Register an incarnation of a worker at the server, however long that takes."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.client.pauses import Pauses
from holdfast.errors import IllegalMove, Invalid, NotAllowed, NotFound, Refused, Unavailable
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.answers import WorkerRegisterAnswer
from holdfast.wire.requests import WorkerRegisterRequest
from holdfast.worker.placed.incarnation import Incarnation
from holdfast.worker.placed.server_calls import ServerCalls

log = logging.getLogger("holdfast.placed")
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0


async def register(
    calls: ServerCalls,
    incarnation: Incarnation,
    write_request: Callable[[WorkerCredential | None], WorkerRegisterRequest],
    *,
    replaces: WorkerCredential | None,
    is_draining: Callable[[], bool],
) -> WorkerRegisterAnswer:
    """Register until the server accepts it, in place of an earlier incarnation if there was one.

    Raises what the server refuses for good, and Unavailable once the worker is to drain.
    """
    pauses = Pauses(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
    while True:
        try:
            return await calls.register(write_request(replaces))
        except IllegalMove as error:  # the first answer was lost, and we counted as dead since
            log.info("starting anew: %s", error)
            replaces = incarnation.credential
            incarnation.begin_anew()
        except (Unavailable, Refused) as error:
            if replaces is not None and isinstance(error, NotFound | Invalid | NotAllowed):
                log.info("does not replace %s: %s", replaces.worker_id, error)
                replaces = None
                continue
            if is_draining() or isinstance(error, NotFound | Invalid):
                raise
            log.warning("cannot register yet: %s", error)
            await asyncio.sleep(pauses.next(error))
