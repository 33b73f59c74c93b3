"""Read events: of a job or task, or all of them from where a reader left off.

Ids are handed out in order but commit out of order, so a reader that remembers the highest id it
has seen would miss a late commit. A cursor here is (transaction, id), and only transactions below
the snapshot's oldest running one are read: nothing can be added behind a cursor any more. Within
one stream the order is that of `seq`: a transaction that began earlier may move a task later.
"""

from datetime import datetime
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_EVENTS = load_statements("events")


class Cursor(NamedTuple):
    """Where a reader of all events has got to."""

    txid: int = 0
    id: int = 0


class Event(NamedTuple):
    """One state change, or one thing that happened to a job."""

    id: int
    job_id: int
    task_index: int
    attempt: int
    seq: int
    type: str
    ts: datetime
    actor: str | None
    correlation_id: str
    trace_id: str | None
    cause: str | None
    payload: str | None
    version: int
    txid: int

    @property
    def cursor(self) -> Cursor:
        """Name the place right after this event."""
        return Cursor(self.txid, self.id)


async def read_events(
    tx: Transaction, after: Cursor, *, job_id: int | None = None, count_max: int = 1000
) -> list[Event]:
    """Read the next events of all jobs or of one, in an order in which none is ever missed."""
    rows = await tx.fetch(
        _EVENTS["read_events"], txid=after.txid, id=after.id, job_id=job_id, batch_max=count_max
    )
    return [Event(*row) for row in rows]


async def list_events(
    tx: Transaction, job_id: int, task_index: int | None = None, *, count_max: int = 10_000
) -> list[Event]:
    """List what happened to a job (task_index -1), to one of its tasks, or to all of it."""
    rows = await tx.fetch(
        _EVENTS["list_events"], job_id=job_id, task_index=task_index, batch_max=count_max
    )
    return [Event(*row) for row in rows]
