"""Place tasks on workers: read what there is, let the rules plan, and commit what still holds."""

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId
from holdfast.model.resources import Capacity
from holdfast.model.shapes import read_tolerantly
from holdfast.model.spec import JobSpec, Policy
from holdfast.model.states import TaskState
from holdfast.operations.placed.leadership import Term, hold_term
from holdfast.rules.health import judge
from holdfast.rules.placement.ports import PORT_MIN, PORTS_PER_HOST, choose_ports
from holdfast.rules.placement.scheduler import Demand, Placement, Shape, WorkerView, plan, shape_of
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.attempts import AttemptUsage, keep_usage
from holdfast.store.tables.jobs import load_specs
from holdfast.store.tables.placed.leases import (
    Booked,
    PlacedTask,
    list_booked,
    list_ports,
    place_tasks,
)
from holdfast.store.tables.placed.ready import (
    ReadyOfJob,
    TakenOfJob,
    WantedOfJob,
    drop_ready_of_ended_jobs,
    drop_stale_ready,
    has_placed_ready,
    list_demands,
    list_demands_of_job,
    take_ready_of_jobs,
)
from holdfast.store.tables.workers import FleetWorker, hold_open_workers, read_fleet

log = logging.getLogger("holdfast.place")
LINE_TASKS_MAX = 256
PLACEMENTS_MAX = 1000
STALE_MAX = 10_000
LOOKS_MAX = 10
_decode_capacity = msgspec.json.Decoder(Capacity).decode


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


class Placed(NamedTuple):
    """A task that has been given to a worker."""

    task_id: TaskId
    worker_id: str
    attempt: int
    job: StoredSpec


class _Chosen(NamedTuple):
    """A ready task and where the plan puts it."""

    task_id: TaskId
    attempt: int
    worker_id: str
    eligible_at: datetime


class _Committed(NamedTuple):
    """What a transaction has placed, and the ports it has given out on each host."""

    placed: list[Placed]
    ports: dict[str, set[int]]


class Scheduler:
    """Keeps what never changes of the jobs it has met, so that a pass reads counts alone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._wants: dict[int, Wants] = {}
        self._last_ports: dict[str, int] = {}
        self._stale: set[int] = set()

    async def run(self, term: Term) -> list[Placed]:
        """Make one pass; returns what was placed. Raises Deposed.

        Where tasks that were cancelled stood in the way, they are cleared away, and it looks again.
        """
        placed: list[Placed] = []
        for _ in range(LOOKS_MAX):
            self._stale = set()
            placed += await self._look(term)
            if not self._stale:
                break
            await self._ledger.write(_drop_stale, sorted(self._stale))
        return placed

    async def _look(self, term: Term) -> list[Placed]:
        """Look at everything once, plan, and commit."""
        async with self._ledger.database.transaction() as tx:
            await hold_term(tx, term)
            if not await has_placed_ready(tx):
                return []  # most of the time; the fleet need not be looked at
            snapshot = await self.read(tx)
        if snapshot.ended_jobs:
            await self._ledger.write(_drop_ended, snapshot.ended_jobs)
        # In a thread: with very many shapes this takes a while, and workers wait to be called.
        planned = await asyncio.to_thread(
            plan, snapshot.workers, snapshot.demands, snapshot.now, placements_max=PLACEMENTS_MAX
        )
        gangs = {demand.job_id for demand in snapshot.demands if demand.gang is not None}
        placed: list[Placed] = []
        # A gang is committed alone: if a member is missing, it is undone alone.
        single = [p for p in planned.placements if p.job_id not in gangs]
        together = [[p for p in planned.placements if p.job_id == job_id] for job_id in gangs]
        for placements in [single, *together]:
            if placements:
                gang = placements[0].job_id if placements is not single else None
                placed += await self._try_commit(term, placements, snapshot=snapshot, gang=gang)
        return placed

    async def _try_commit(
        self,
        term: Term,
        placements: Sequence[Placement],
        *,
        snapshot: Snapshot,
        gang: int | None,
    ) -> list[Placed]:
        """Commit a part of a plan; what cannot be had now is left for the next pass."""
        try:
            committed = await self._ledger.write(
                self._commit, term, placements=placements, snapshot=snapshot, gang=gang
            )
        except (_GangIncomplete, LockTimeout) as error:
            about = None if gang is None else self._ledger.specs.describe(gang)
            log.info("not placed in this pass: %s", error, extra=about)
            return []
        for host, ports in committed.ports.items():
            snapshot.ports_used[host] |= ports
            self._last_ports[host] = max(ports)
        return committed.placed

    async def read(self, tx: Transaction, job_id: int | None = None) -> Snapshot:
        """Read what there is to place, of all jobs or of one, and where."""
        now = (await tx.now()).timestamp()
        # Before the leases: a worker that registers meanwhile brings adopted ones along.
        fleet = await read_fleet(tx)
        most = {"tasks_max": LINE_TASKS_MAX, "gang_max": self._ledger.limits.gang_tasks_max + 1}
        if job_id is None:
            ready = await list_demands(tx, **most)
        else:
            ready = await list_demands_of_job(tx, job_id, **most)
        live = [item for item in ready if item.is_live]
        booked = await list_booked(tx)
        await self._learn(tx, {item.job_id for item in live} | {item.job_id for item in booked})
        ports: dict[str, set[int]] = defaultdict(set)
        for host, port in await list_ports(tx):
            ports[host].add(port)
        workers = self._see_workers(fleet, booked, ports)
        ended = sorted({item.job_id for item in ready if not item.is_live})
        return Snapshot(workers, [self._demand(item) for item in live], now, ended, ports)

    async def _learn(self, tx: Transaction, job_ids: set[int]) -> None:
        """Read the wants of jobs not met before, and forget those that are not met any more."""
        self._wants = {job: wants for job, wants in self._wants.items() if job in job_ids}
        missing = sorted(job_ids - self._wants.keys())
        if missing:
            for row in await load_specs(tx, missing):
                spec = read_tolerantly(row.spec, JobSpec)
                ports = tuple(spec.resources.ports) if spec.resources else ()
                self._wants[row.job_id] = Wants(
                    shape_of(spec), spec.coscheduling is not None, ports
                )

    def _demand(self, ready: ReadyOfJob) -> Demand:
        wants = self._wants[ready.job_id]
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
        self, fleet: Iterable[FleetWorker], booked: Iterable[Booked], ports: dict[str, set[int]]
    ) -> list[WorkerView]:
        used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0, 0])
        unstarted: Counter[str] = Counter()
        for worker_id, job_id, leases, starting in booked:
            shape = self._wants[job_id].shape
            amounts = used[worker_id]
            for place, amount in enumerate((shape.cpu, shape.memory, shape.disk, shape.gpu)):
                amounts[place] += amount * leases
            unstarted[worker_id] += starting
        views = []
        for worker in fleet:
            cpu, memory, disk, gpu = used[worker.worker_id]
            why_not = _why_not(worker)
            views.append(
                WorkerView(
                    worker.worker_id,
                    worker.name,
                    worker.host,
                    _decode_capacity(worker.capacity),
                    json.loads(worker.attributes),
                    Capacity(cpu, int(memory), int(disk), int(gpu)),
                    PORTS_PER_HOST - len(ports.get(worker.host, ())),
                    unstarted[worker.worker_id],
                    why_not is None,
                    why_not,
                )
            )
        return views

    async def _commit(
        self,
        ledger: Ledger,
        tx: Transaction,
        term: Term,
        *,
        placements: Sequence[Placement],
        snapshot: Snapshot,
        gang: int | None,
    ) -> _Committed:
        """Give tasks to workers, as far as what the plan was made of still holds."""
        await hold_term(tx, term)
        open_workers = await hold_open_workers(tx, {p.worker_id for p in placements})
        placements = [p for p in placements if p.worker_id in open_workers]
        wanted: Counter[tuple[int, str | None]] = Counter()
        for placement in placements:
            wanted[placement.job_id, placement.avoid] += placement.count
        if gang is not None and wanted[gang, None] != _gang_size(snapshot, gang):
            return _Committed([], {})
        chosen = await self._take(tx, placements, wanted)
        if gang is not None and len(chosen) != wanted[gang, None]:
            raise _GangIncomplete(gang)
        given, ports = self._give_ports(chosen, snapshot)
        return _Committed(await self._assign(ledger, tx, chosen, given=given), ports)

    async def _assign(
        self, ledger: Ledger, tx: Transaction, chosen: list[_Chosen], *, given: list[dict[str, int]]
    ) -> list[Placed]:
        if not chosen:
            return []
        specs = await ledger.specs.load(tx, {item.task_id.job_id for item in chosen})
        tasks = [
            _placed_task(item, ports, specs[item.task_id.job_id].policy)
            for item, ports in zip(chosen, given, strict=True)
        ]
        count = await place_tasks(tx, tasks)
        assert count == len(chosen), "a locked task could not be placed"
        await _note_ports(tx, chosen, given)
        moves = Moves()
        for item in chosen:
            moves.add(item.task_id.job_id, TaskState.PENDING, TaskState.ASSIGNED)
            moves.require_live(item.task_id.job_id)
        await apply_moves(tx, moves)
        now = await tx.now()
        tx.news.waits += [
            (item.task_id.job_id, (now - item.eligible_at).total_seconds()) for item in chosen
        ]
        return [
            Placed(item.task_id, item.worker_id, item.attempt, specs[item.task_id.job_id])
            for item in chosen
        ]

    def _give_ports(
        self, chosen: list[_Chosen], snapshot: Snapshot
    ) -> tuple[list[dict[str, int]], dict[str, set[int]]]:
        """Choose ports for attempts; the transaction may still come to nothing."""
        hosts = {worker.worker_id: worker.host for worker in snapshot.workers}
        given: list[dict[str, int]] = []
        taken: dict[str, set[int]] = defaultdict(set)
        for item in chosen:
            names, host = self._wants[item.task_id.job_id].ports, hosts[item.worker_id]
            last = max(taken[host], default=self._last_ports.get(host, PORT_MIN - 1))
            given.append(choose_ports(names, snapshot.ports_used[host] | taken[host], last))
            taken[host] |= set(given[-1].values())
        return given, {host: ports for host, ports in taken.items() if ports}

    async def _take(
        self,
        tx: Transaction,
        placements: Sequence[Placement],
        wanted: Counter[tuple[int, str | None]],
    ) -> list[_Chosen]:
        """Take ready tasks for placements; fewer than planned, if some have gone meanwhile."""
        keys = sorted(wanted, key=lambda key: (key[0], key[1] or ""))
        taken = await take_ready_of_jobs(tx, [WantedOfJob(*key, wanted[key]) for key in keys])
        fresh: dict[tuple[int, str | None], list[TakenOfJob]] = defaultdict(list)
        for task in taken:
            if task.state == TaskState.PENDING and task.job_is_live:
                fresh[task.job_id, task.avoid].append(task)
            else:
                self._stale.add(task.job_id)
        return _share_out(placements, fresh)


class _GangIncomplete(Exception):
    """A member was taken or cancelled after the plan was made: the gang waits for the next pass."""


def _share_out(
    placements: Sequence[Placement], fresh: dict[tuple[int, str | None], list[TakenOfJob]]
) -> list[_Chosen]:
    """Give ready tasks to the workers that the plan has chosen."""
    chosen: list[_Chosen] = []
    for placement in placements:
        demand = fresh[placement.job_id, placement.avoid]
        share, demand[:] = demand[: placement.count], demand[placement.count :]
        chosen += [
            _Chosen(
                TaskId(task.job_id, task.task_index),
                task.attempt,
                placement.worker_id,
                task.eligible_at,
            )
            for task in share
        ]
    return sorted(chosen, key=lambda item: item.task_id)


def _placed_task(item: _Chosen, ports: dict[str, int], policy: Policy) -> PlacedTask:
    return PlacedTask(
        item.task_id,
        item.worker_id,
        timedelta(seconds=policy.lease),
        None if policy.timeout is None else timedelta(seconds=policy.timeout),
        json.dumps(ports) if ports else None,
    )


async def _note_ports(tx: Transaction, chosen: list[_Chosen], given: list[dict[str, int]]) -> None:
    noted = [
        AttemptUsage(item.task_id, item.attempt, ports=json.dumps(ports))
        for item, ports in zip(chosen, given, strict=True)
        if ports
    ]
    if noted:
        await keep_usage(tx, noted)


async def _drop_ended(_: Ledger, tx: Transaction, job_ids: list[int]) -> None:
    """Clear the demand of tasks whose jobs have ended or were cancelled."""
    await drop_ready_of_ended_jobs(tx, job_ids, STALE_MAX)


async def _drop_stale(_: Ledger, tx: Transaction, job_ids: list[int]) -> None:
    """Clear the demand of tasks that were cancelled one by one."""
    await drop_stale_ready(tx, job_ids, STALE_MAX)


def _why_not(worker: FleetWorker) -> str | None:
    """Say why a worker is given nothing new."""
    if worker.draining:
        return "draining"
    if judge(worker.consecutive_failures) != "healthy":
        return "its last heartbeat failed"
    return None if worker.answered else "has not answered yet"


def _gang_size(snapshot: Snapshot, job_id: int) -> int | None:
    return next((demand.gang for demand in snapshot.demands if demand.job_id == job_id), None)
