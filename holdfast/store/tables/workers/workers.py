"""The table of workers: who has registered, who answers, who is lost."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_WORKERS = load_statements("workers/workers")
_CLUSTER = load_statements("workers/cluster")


class NewWorker(NamedTuple):
    """A worker's incarnation; one that is to be called has an address, and two JSON texts.

    `claims_up_to` is a JSON text, too: what it has to give to claimed tasks that name resources.
    """

    worker_id: str
    name: str
    host: str
    queues: Sequence[str]
    address: str | None = None
    secret_hash: bytes | None = None
    capacity: str | None = None
    attributes: str = "{}"
    book: str | None = None
    claims_up_to: str | None = None
    token_id: str | None = None
    version: str | None = None
    # The time on its host.
    clock: datetime | None = None


async def register_worker(tx: Transaction, worker: NewWorker) -> None:
    """Store a worker; one that is there stays as it is."""
    await tx.fetch(_WORKERS["register_worker"], **worker._asdict())


class KnownWorker(NamedTuple):
    """A worker that has registered; `void` if the token that it joined with has ended."""

    worker_id: str
    name: str
    host: str
    lost_at: datetime | None
    secret_hash: bytes | None
    called: bool
    void: bool


async def find_worker(tx: Transaction, worker_id: str) -> KnownWorker | None:
    """Find a worker."""
    row = await tx.fetch_one(_WORKERS["find_worker"], worker_id=worker_id)
    return None if row is None else KnownWorker._make(row)


class StoredSecret(NamedTuple):
    """The hash of a worker's secret; `void` if the token that it joined with has ended."""

    worker_id: str
    secret_hash: bytes
    void: bool


async def read_secret_hashes(
    database: Database, worker_ids: Sequence[str]
) -> dict[str, StoredSecret]:
    """Read by what workers prove themselves, of those that have registered with a secret."""
    rows = await database.fetch(_WORKERS["read_secret_hashes"], worker_ids=list(worker_ids))
    return {row[0]: StoredSecret._make(row) for row in rows}


async def lose_workers_of_ended_tokens(database: Database) -> list[str]:
    """Note that workers are lost whose token was revoked, or is over its time; returns them."""
    rows = await database.fetch(_WORKERS["lose_workers_of_ended_tokens"])
    return [row[0] for row in rows]


async def mark_replaced(tx: Transaction, worker_id: str, *, replaced_by: str) -> None:
    """Note that a worker is gone, and which one has come in its place."""
    await tx.fetch(_WORKERS["mark_replaced"], worker_id=worker_id, replaced_by=replaced_by)


async def list_lost_workers(tx: Transaction, worker_ids: Iterable[str]) -> set[str]:
    """List those of these workers that are lost."""
    rows = await tx.fetch(_WORKERS["list_lost_workers"], worker_ids=sorted(worker_ids))
    return {row[0] for row in rows}


async def see_workers(tx: Transaction, worker_ids: Sequence[str]) -> None:
    """Note that workers have been heard of."""
    await tx.fetch(_WORKERS["see_workers"], worker_ids=worker_ids)


async def hold_books(tx: Transaction, books: Iterable[str]) -> list[tuple[str, str]]:
    """Hold the books of live workers; returns each with its capacity, a JSON text."""
    rows = await tx.fetch(_WORKERS["hold_books"], books=sorted(books))
    return [(row[0], row[1]) for row in rows]


class BookedOfBook(NamedTuple):
    """How many leases of a job are booked in a book."""

    book: str
    job_id: int
    leases: int


async def list_booked_of_books(tx: Transaction, books: Iterable[str]) -> list[BookedOfBook]:
    """List what is booked in some books."""
    rows = await tx.fetch(_WORKERS["list_booked_of_books"], books=sorted(books))
    return list(map(BookedOfBook._make, rows))


async def drain_worker(tx: Transaction, worker_id: str, *, actor: str) -> bool:
    """Note that a worker should take nothing more; False if there is no such live worker."""
    row = await tx.fetch_one(_WORKERS["drain_worker"], worker_id=worker_id, actor=actor)
    return row is not None


async def list_draining(tx: Transaction, worker_ids: Sequence[str]) -> list[str]:
    """List those of these workers that are draining."""
    rows = await tx.fetch(_WORKERS["list_draining"], worker_ids=worker_ids)
    return [row[0] for row in rows]


async def prune_workers(tx: Transaction, *, older_than: timedelta, batch_max: int) -> int:
    """Forget workers that have long been gone and hold nothing; returns how many."""
    rows = await tx.fetch(_WORKERS["prune_workers"], older_than=older_than, batch_max=batch_max)
    return len(rows)


async def list_called_workers(database: Database) -> list[str]:
    """List the workers that are to be called."""
    return [row[0] for row in await database.fetch(_CLUSTER["list_called_workers"])]


class CalledWorker(NamedTuple):
    """A worker that is to be called, and which call it has answered last."""

    worker_id: str
    address: str
    call_secret: str
    answered_epoch: int | None
    answered_number: int | None
    answered_at: datetime | None
    draining: bool

    @property
    def answered(self) -> tuple[int, int] | None:
        """Name the call it has answered last: epoch and number."""
        if self.answered_epoch is None or self.answered_number is None:
            return None
        return self.answered_epoch, self.answered_number


async def read_called_workers(tx: Transaction, worker_ids: Sequence[str]) -> list[CalledWorker]:
    """Read how to call workers; those that are lost are left out."""
    rows = await tx.fetch(_CLUSTER["read_called_workers"], worker_ids=worker_ids)
    return list(map(CalledWorker._make, rows))


async def hold_workers(tx: Transaction, worker_ids: Iterable[str]) -> set[str]:
    """Hold live workers, so that none is declared dead meanwhile; returns them."""
    rows = await tx.fetch(_CLUSTER["hold_workers"], worker_ids=sorted(worker_ids))
    return {row[0] for row in rows}


async def hold_open_workers(tx: Transaction, worker_ids: Iterable[str]) -> set[str]:
    """Hold the workers that may be given something new; returns them."""
    rows = await tx.fetch(_CLUSTER["hold_open_workers"], worker_ids=sorted(worker_ids))
    return {row[0] for row in rows}


async def record_answers(
    tx: Transaction, answers: Sequence[tuple[str, int]], *, epoch: int
) -> None:
    """Note which call each worker has answered."""
    await tx.fetch(
        _CLUSTER["record_answers"],
        epoch=epoch,
        worker_ids=[worker_id for worker_id, _ in answers],
        numbers=[number for _, number in answers],
    )


class FailingWorker(NamedTuple):
    """A worker whose heartbeats fail: how many in a row, and why the last one did."""

    worker_id: str
    consecutive_failures: int
    last_failure: str


async def count_failures(
    tx: Transaction, failures: Sequence[tuple[str, str]]
) -> list[FailingWorker]:
    """Count a failed heartbeat of each worker; those that are lost are left out."""
    rows = await tx.fetch(
        _CLUSTER["count_failures"],
        worker_ids=[worker_id for worker_id, _ in failures],
        failures=[failure for _, failure in failures],
    )
    return list(map(FailingWorker._make, rows))


async def mark_lost(tx: Transaction, causes: Sequence[tuple[str, str]]) -> None:
    """Note that workers are lost, each with the cause; dead is final."""
    await tx.fetch(
        _CLUSTER["mark_lost"],
        worker_ids=[worker_id for worker_id, _ in causes],
        causes=[cause for _, cause in causes],
    )


class FleetWorker(NamedTuple):
    """A worker as the scheduler sees it; capacity and attributes are JSON texts."""

    worker_id: str
    name: str
    host: str
    capacity: str
    attributes: str
    draining: bool
    consecutive_failures: int
    answered: bool
    book: str | None


async def read_fleet(tx: Transaction) -> list[FleetWorker]:
    """Read all workers that are called and not lost."""
    return list(map(FleetWorker._make, await tx.fetch(_CLUSTER["read_fleet"])))
