"""`holdfast worker`: claims tasks from queues and runs them."""

import asyncio
import importlib
import logging
import os
import signal
import sys
import tempfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def run_worker(
    *,
    server: Annotated[str | None, Parameter(help="Default: $HOLDFAST_SERVER, or local.")] = None,
    queue: Annotated[list[str] | None, Parameter(help="A queue to serve; repeat it.")] = None,
    concurrency: Annotated[int, Parameter(help="How many tasks at once.")] = 10,
    import_: Annotated[
        list[str] | None, Parameter(name="--import", help="A module with tasks; repeat it.")
    ] = None,
    isolation: Literal["auto", "process"] = "auto",
    name: str | None = None,
    drain_seconds: float = 30.0,
) -> int:
    """Claim tasks from queues and run them, until told to drain."""
    from holdfast.client.transport import find_server
    from holdfast.worker.slots import take_slot
    from holdfast.worker.worker import WorkerOptions

    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s"
    )
    sys.path.insert(0, str(Path.cwd()))
    for module in import_ or ():
        importlib.import_module(module)
    url = find_server(server)
    folder = _folder_for(url)
    slot = take_slot(folder)
    options = WorkerOptions(
        server=url,
        queues=tuple(queue or ["default"]),
        folder=folder / f"slot-{slot.number}",
        concurrency=concurrency,
        imports=tuple(import_ or ()),
        isolation=isolation,
        drain_seconds=drain_seconds,
        **({} if name is None else {"name": name}),
    )
    import uvloop

    with closing(slot):
        return uvloop.run(_work(options, slot))


async def _work(options, slot) -> int:
    from holdfast.worker.worker import Worker

    worker = Worker(options, slot)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.drain)
    await worker.run()
    return 0


def _folder_for(url: str) -> Path:
    """Choose where the workers of this user and server keep their locks."""
    place = os.environ.get("HOLDFAST_WORKER_DIR") or os.environ.get("XDG_RUNTIME_DIR")
    base = Path(place) if place else Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}"
    return base / f"workers-{sha256(url.encode()).hexdigest()[:12]}"
