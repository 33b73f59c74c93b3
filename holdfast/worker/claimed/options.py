"""How a worker of queues is set up."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.model.resources import Capacity
from holdfast.worker.claimed.sqs import SqsInbox


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker differs from the next one; `folder` belongs to its slot alone.

    With a `mark` (HOLDFAST_NAME=VALUE), programs that carry it in their environment die with the
    worker: a process that is nothing but a worker sets it for those that its functions start.
    """

    server: str
    queues: tuple[str, ...]
    folder: Path
    concurrency: int = 10
    # What it has for tasks that name resources; without it, they are not bounded by that.
    capacity: Capacity | None = None
    imports: tuple[str, ...] = ()
    isolation: str = "auto"
    name: str = field(default_factory=socket.gethostname)
    drain_seconds: float = 30.0
    mark: str | None = None
    open_inbox: Callable[[], SqsInbox] | None = None
