"""A worker as a process of its own, to be frozen and killed. SIGTERM drains it."""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.claimed import attempt as attempt_module
from holdfast.worker.claimed import function_runner as functions_module
from holdfast.worker.claimed import worker as worker_module
from holdfast.worker.claimed.options import WorkerOptions
from holdfast.worker.claimed.worker import Worker
from holdfast.worker.slots import take_slot
from tests.worker import sample_tasks  # noqa: F401 - or its import would take part of a timeout

BOUNDS: dict[str, tuple[Any, str]] = {
    "stop_seconds": (worker_module, "STOP_SECONDS_MAX"),
    "go_seconds": (attempt_module, "GO_SECONDS_MAX"),
    "blocked_seconds": (functions_module, "BLOCKED_SECONDS_MAX"),
}


async def work(folder: Path, options: dict[str, Any]) -> None:
    """Take a slot and work until drained."""
    slot = take_slot(folder / "slots")
    options["queues"] = tuple(options["queues"])
    for option, (module, name) in BOUNDS.items():
        setattr(module, name, options.pop(option, getattr(module, name)))
    if "mark" in options:  # for the programs that its functions start
        name, value = options["mark"].split("=")
        os.environ[name] = value
    own = folder / f"slot-{slot.number}"
    worker = Worker(WorkerOptions(folder=own, allowed=EVERYTHING, **options), slot)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(work(Path(sys.argv[1]), json.loads(sys.argv[2])))
