"""Leases of placed work: given by the scheduler, named by called workers."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import fence_columns, id_columns

_CLUSTER = load_statements("workers/cluster")


class WantedAttempt(NamedTuple):
    """An attempt that a worker should know of; ports and devices are JSON texts, as the input."""

    worker_id: str
    job_id: int
    task_index: int
    attempt: int
    lease_token: UUID
    expires_at: datetime
    ending: bool
    acknowledged: bool
    ports: str | None
    devices: str | None
    cancel_deadline_at: datetime | None
    state: int
    input: str | None
    now: datetime


async def read_wanted(tx: Transaction, worker_ids: Sequence[str]) -> list[WantedAttempt]:
    """Read all attempts that are placed on workers, in no order."""
    rows = await tx.fetch(_CLUSTER["read_wanted"], worker_ids=worker_ids)
    return list(map(WantedAttempt._make, rows))


async def list_unacknowledged(database: Database, worker_id: str) -> list[Fence]:
    """List what a worker has not named yet, whether it is to run or to end."""
    rows = await database.fetch(_CLUSTER["list_unacknowledged"], worker_id=worker_id)
    return [Fence(TaskId(job_id, index), number, token) for job_id, index, number, token in rows]


class PlacedStop(NamedTuple):
    """A placed attempt that should stop: at once if it is ending."""

    worker_id: str
    job_id: int
    task_index: int
    attempt: int
    ending: bool


async def list_placed_stops(tx: Transaction) -> list[PlacedStop]:
    """List all placed attempts that should stop."""
    return list(map(PlacedStop._make, await tx.fetch(_CLUSTER["list_placed_stops"])))


class UnfinishedLoss(NamedTuple):
    """A worker that is lost and whose attempts nobody has ended yet."""

    worker_id: str
    cause: str


async def list_unfinished_losses(tx: Transaction) -> list[UnfinishedLoss]:
    """List the losses that somebody has yet to finish."""
    rows = await tx.fetch(_CLUSTER["list_unfinished_losses"])
    return list(map(UnfinishedLoss._make, rows))


class GangMember(NamedTuple):
    """Where a member of a gang is in this round; ports are a JSON text."""

    job_id: int
    task_index: int
    address: str
    ports: str | None


async def read_gangs(tx: Transaction, rounds: Mapping[int, int]) -> list[GangMember]:
    """Read who takes part in rounds of gangs: by job, the number of the attempts of one round."""
    rows = await tx.fetch(
        _CLUSTER["read_gangs"], job_ids=list(rounds.keys()), attempts=list(rounds.values())
    )
    return list(map(GangMember._make, rows))


class RenewedAttempt(NamedTuple):
    """A placed attempt whose lease holds longer now."""

    job_id: int
    task_index: int
    attempt: int
    expires_at: datetime


async def renew_placed(tx: Transaction, named: Sequence[tuple[Fence, str]]) -> list[RenewedAttempt]:
    """Renew what workers have named; a lease that somebody else has locked is left out."""
    rows = await tx.fetch(
        _CLUSTER["renew_placed"],
        **fence_columns([fence for fence, _ in named]),
        worker_ids=[worker_id for _, worker_id in named],
    )
    return list(map(RenewedAttempt._make, rows))


class Booked(NamedTuple):
    """How many leases of a job a worker has, and how many placed ones have not started."""

    worker_id: str
    book: str | None
    job_id: int
    leases: int
    unstarted: int


async def list_booked(tx: Transaction) -> list[Booked]:
    """List what is taken of each worker."""
    return list(map(Booked._make, await tx.fetch(_CLUSTER["list_booked"])))


async def list_ports(tx: Transaction) -> list[tuple[str, int]]:
    """List the ports that are given out, each with its host."""
    return [(row[0], row[1]) for row in await tx.fetch(_CLUSTER["list_ports"])]


class UsedDevice(NamedTuple):
    """A device that is given out, and under which name its worker runs on which host."""

    host: str
    name: str
    device: str


async def list_devices(tx: Transaction) -> list[UsedDevice]:
    """List the devices that are given out."""
    return list(map(UsedDevice._make, await tx.fetch(_CLUSTER["list_devices"])))


class PlacedTask(NamedTuple):
    """A task, its worker, and the terms of the lease; ports and devices are JSON texts.

    `held` names the buckets of limits whose slots it takes, as a text.
    """

    task_id: TaskId
    worker_id: str
    duration: timedelta
    run_timeout: timedelta | None = None
    ports: str | None = None
    devices: str | None = None
    held: str | None = None
    slots: int | None = None


async def place_tasks(tx: Transaction, placed: Sequence[PlacedTask]) -> int:
    """Move locked tasks to ASSIGNED, each with a lease; returns how many."""
    rows = await tx.fetch(
        _CLUSTER["place_tasks"],
        **id_columns([task.task_id for task in placed]),
        worker_ids=[task.worker_id for task in placed],
        durations=[task.duration for task in placed],
        run_timeouts=[task.run_timeout for task in placed],
        ports=[task.ports for task in placed],
        devices=[task.devices for task in placed],
        held=[task.held for task in placed],
        slots=[task.slots for task in placed],
    )
    return len(rows)


async def adopt_leases(
    tx: Transaction, fences: Sequence[Fence], *, worker_id: str, replaces: str | None
) -> set[Fence]:
    """Bind the leases of a replaced worker to the one that has its processes.

    Returns those that are not ending.
    """
    rows = await tx.fetch(
        _CLUSTER["adopt_leases"], **fence_columns(fences), worker_id=worker_id, replaces=replaces
    )
    return {Fence(TaskId(row[0], row[1]), row[2], row[3]) for row in rows if not row[4]}


async def find_leases_of_worker(
    tx: Transaction, fences: Sequence[Fence], *, worker_id: str
) -> set[Fence]:
    """Find which fences hold a lease of this worker that is not ending."""
    rows = await tx.fetch(
        _CLUSTER["find_leases_of_worker"], **fence_columns(fences), worker_id=worker_id
    )
    return {Fence(TaskId(row[0], row[1]), row[2], row[3]) for row in rows}
