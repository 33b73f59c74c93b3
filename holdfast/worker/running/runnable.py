"""An attempt, claimed or placed, as far as it matters to whoever runs it, and to its own code."""

from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

import msgspec

from holdfast.client.both import LoopThread
from holdfast.client.codec import PayloadCodec
from holdfast.client.context import Connection, Identity, Lease
from holdfast.client.token import UNNAMED
from holdfast.client.transport import Transport
from holdfast.wire.answers import ClaimedJob


class Runnable(Protocol):
    """What there is to know of an attempt to run it."""

    task_id: str
    number: int
    lease_token: UUID
    input: msgspec.Raw
    # The span that its code belongs to.
    trace_parent: str | None

    @property
    def job(self) -> ClaimedJob:
        """The job it belongs to."""


def identify(attempt: Runnable, server: str, *, run_seconds: float = 0.0) -> Identity:
    """Say which attempt this is, for its function and its process; it has run so long by now."""
    left = None if attempt.job.timeout is None else attempt.job.timeout - run_seconds
    return Identity(
        server=server,
        task_id=attempt.task_id,
        attempt=attempt.number,
        lease_token=attempt.lease_token,
        job_name=attempt.job.name,
        num_tasks=attempt.job.num_tasks,
        correlation_id=attempt.job.correlation_id,
        trace_id=attempt.job.trace_id,
        trace_parent=attempt.trace_parent,
        outputs=attempt.job.outputs,
        environment=attempt.job.environment,
        deadline=None if left is None else datetime.now(UTC) + timedelta(seconds=left),
    )


def lease_of(attempt: Runnable) -> Lease:
    """Give what an attempt proves by who it is."""
    return Lease(attempt.task_id, attempt.number, attempt.lease_token)


def connect(server: str, codec: PayloadCodec | None = None) -> Connection:
    """Open the connection by which attempts call the server, each by its lease, on a thread."""
    thread = LoopThread("holdfast-calls")
    transport = Transport(server, speaker=UNNAMED)
    thread.run(transport.__aenter__())
    return Connection(transport, thread, codec)
