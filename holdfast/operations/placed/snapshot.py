"""What the scheduler plans from: what waits to be placed, and what is free where."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.spec import JobSpec
from holdfast.model.workers.resources import Capacity
from holdfast.operations.placed.shares import SharedWork, read_shares
from holdfast.rules.health import judge
from holdfast.rules.placement.booked import add_up
from holdfast.rules.placement.devices import count_given
from holdfast.rules.placement.ports import PORTS_PER_HOST
from holdfast.rules.placement.scheduler import Demand, Shape, WorkerView, shape_of
from holdfast.rules.placement.turns import Turns
from holdfast.store.database import Transaction
from holdfast.store.tables.placed.leases import Booked, list_booked, list_devices, list_ports
from holdfast.store.tables.placed.ready import ReadyOfJob, list_demands, list_demands_of_job
from holdfast.store.tables.work.jobs import load_specs
from holdfast.store.tables.workers.workers import FleetWorker, read_fleet

DEMAND_TASKS_MAX = 256
WORKERS_MAX = 20_000
# The name of a worker, which its incarnations share, and the host it runs on.
Owner = tuple[str, str]
# Workers say the same in every pass, and most of them the same as others.
_decode_capacity = lru_cache(WORKERS_MAX)(msgspec.json.Decoder(Capacity).decode)
_decode_attributes = lru_cache(WORKERS_MAX)(json.loads)


class Wants(NamedTuple):
    """What the scheduler needs of a job's spec."""

    shape: Shape
    is_gang: bool
    ports: tuple[str, ...]


class Snapshot(NamedTuple):
    """Everything a plan follows from."""

    workers: list[WorkerView]
    demands: list[Demand]
    now: float
    ended_jobs: list[int]
    ports_used: dict[str, set[int]]
    devices_used: dict[Owner, set[str]]
    shared: SharedWork | None = None

    @property
    def turns(self) -> Turns | None:
        """Say whose turn it is, if placed work is shared."""
        return None if self.shared is None else self.shared.turns


class SnapshotReader:
    """Keeps what never changes of the jobs it has met, so that a look reads counts alone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.wants: dict[int, Wants] = {}

    async def read(
        self, tx: Transaction, job_id: int | None = None, *, jobs_max: int | None = None
    ) -> Snapshot:
        """Read what there is to place, of all jobs, of the first so many or of one, and where."""
        now = (await tx.now()).timestamp()
        # Before the leases: a worker that registers meanwhile brings adopted ones along.
        fleet = await read_fleet(tx)
        most = {"tasks_max": DEMAND_TASKS_MAX, "gang_max": self._ledger.limits.gang_tasks_max + 1}
        if job_id is None:
            ready = await list_demands(tx, **most, jobs_max=jobs_max)
        else:
            ready = await list_demands_of_job(tx, job_id, **most)
        live = [item for item in ready if item.is_live]
        booked = await list_booked(tx)
        await self._learn(tx, {item.job_id for item in live} | {item.job_id for item in booked})
        ports: dict[str, set[int]] = defaultdict(set)
        for host, port in await list_ports(tx):
            ports[host].add(port)
        devices: dict[Owner, set[str]] = defaultdict(set)
        for host, name, device in await list_devices(tx):
            devices[host, name].add(device)
        workers = self._see_workers(fleet, booked, ports=ports, devices=devices)
        ended = sorted({item.job_id for item in ready if not item.is_live})
        demands, shared = await read_shares(tx, [self._demand(item) for item in live], now)
        return Snapshot(workers, demands, now, ended, ports, devices, shared)

    async def _learn(self, tx: Transaction, job_ids: set[int]) -> None:
        """Read the wants of jobs not met before, and forget those that are not met any more."""
        self.wants = {job: wants for job, wants in self.wants.items() if job in job_ids}
        missing = sorted(job_ids - self.wants.keys())
        if missing:
            for row in await load_specs(tx, missing):
                spec = read_tolerantly(row.spec, JobSpec)
                ports = tuple(spec.resources.ports) if spec.resources else ()
                self.wants[row.job_id] = Wants(shape_of(spec), spec.coscheduling is not None, ports)

    def _demand(self, ready: ReadyOfJob) -> Demand:
        wants = self.wants[ready.job_id]
        return Demand(
            ready.job_id,
            ready.priority,
            ready.since,
            ready.ready,
            wants.shape,
            ready.unfinished if wants.is_gang else None,
            ready.unfinished - ready.ready if wants.is_gang else 0,
            ready.avoid,
        )

    def _see_workers(
        self,
        fleet: Iterable[FleetWorker],
        booked: Sequence[Booked],
        *,
        ports: dict[str, set[int]],
        devices: dict[Owner, set[str]],
    ) -> list[WorkerView]:
        used = add_up(
            (item.book or item.worker_id, self.wants[item.job_id].shape, item.leases)
            for item in booked
        )
        unstarted: Counter[str] = Counter()
        for item in booked:
            unstarted[item.worker_id] += item.unstarted
        views = []
        for worker in fleet:
            mine = used[worker.book or worker.worker_id]
            capacity = _decode_capacity(worker.capacity)
            owned = devices.get((worker.host, worker.name), set())
            given = count_given(capacity, mine.gpu, owned)
            why_not = _why_not(worker)
            views.append(
                WorkerView(
                    worker.worker_id,
                    worker.name,
                    worker.host,
                    capacity,
                    _decode_attributes(worker.attributes),
                    Capacity(mine.cpu, mine.memory, mine.disk, given),
                    PORTS_PER_HOST - len(ports.get(worker.host, ())),
                    unstarted[worker.worker_id],
                    why_not is None,
                    why_not,
                    worker.book,
                )
            )
        return views


def _why_not(worker: FleetWorker) -> str | None:
    """Say why a worker is given nothing new."""
    if worker.draining:
        return "draining"
    if judge(worker.consecutive_failures) != "healthy":
        return "its last heartbeat failed"
    return None if worker.answered else "has not answered yet"
