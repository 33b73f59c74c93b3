"""How a worker of queues is set up."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.model.workers.resources import Capacity
from holdfast.worker.allowing import Allowed
from holdfast.worker.claimed.book import SharedBook
from holdfast.worker.claimed.sqs import SqsInbox
from holdfast.worker.running.attempt_uids import AttemptUids
from holdfast.worker.running_code import RunningCode


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker differs from the next one; `folder` belongs to its slot alone.

    With a `mark` (HOLDFAST_NAME=VALUE), programs that carry it in their environment die with the
    worker: a process that is nothing but a worker sets it for those that its functions start.
    """

    server: str
    queues: tuple[str, ...]
    folder: Path
    allowed: Allowed
    concurrency: int = 10
    # What it has for tasks that name resources: here, or by the book that this process shares with
    # its placed work. With neither, they are not bounded by that.
    capacity: Capacity | None = None
    book: SharedBook | None = None
    imports: tuple[str, ...] = ()
    isolation: str = "auto"
    # Where to import the codec from that encodes what functions return: module:object.
    codec: str | None = None
    name: str = field(default_factory=socket.gethostname)
    drain_seconds: float = 30.0
    mark: str | None = None
    # Attempts in processes are users of their own.
    uids: AttemptUids | None = None
    open_inbox: Callable[[], SqsInbox] | None = None
    # How the incarnation ended that held this slot before, if it crashed.
    crash: str | None = None
    code: RunningCode = field(default_factory=RunningCode)
