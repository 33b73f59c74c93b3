"""Place tasks on workers: read what there is, let the rules plan, and commit what still holds."""

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.parts import write_in_parts
from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import subtract
from holdfast.operations.books import count_used
from holdfast.operations.placed.gangs import GangIncomplete, keep_limits_for
from holdfast.operations.placed.giving import Given, Giver
from holdfast.operations.placed.leadership import Term, hold_term
from holdfast.operations.placed.shares import keep_turns, note_placed
from holdfast.operations.placed.snapshot import Snapshot, SnapshotReader
from holdfast.rules.placement.booked import take_most
from holdfast.rules.placement.scheduler import Placement, WorkerView, plan
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.limits.usage_limits import share_limits
from holdfast.store.tables.placed.leases import PlacedTask, place_tasks
from holdfast.store.tables.placed.ready import (
    TakenOfJob,
    WantedOfJob,
    drop_ready_of_ended_jobs,
    drop_stale_ready,
    has_placed_ready,
    open_due_placed,
    pass_placed,
    take_ready_of_jobs,
)
from holdfast.store.tables.work.attempts import AttemptUsage, keep_usage
from holdfast.store.tables.work.ready import Passed
from holdfast.store.tables.workers.workers import hold_open_workers

log = logging.getLogger("holdfast.place")
PLACEMENTS_MAX = 1000
STALE_MAX = 10_000
LOOKS_MAX = 10


class Placed(NamedTuple):
    """A task that has been given to a worker."""

    task_id: TaskId
    worker_id: str
    attempt: int
    job: StoredSpec


class Pass(NamedTuple):
    """What one pass has placed, and what kept it from placing more."""

    placed: list[Placed]
    broken: list[Exception]

    def raise_broken(self) -> None:
        """Raise what was broken; for after the workers have heard of what was placed."""
        if self.broken:
            raise ExceptionGroup("some jobs cannot be placed", self.broken)


class _Chosen(NamedTuple):
    """A ready task and where the plan puts it."""

    task_id: TaskId
    attempt: int
    worker_id: str
    eligible_at: datetime
    avoid: str | None
    passed: Passed | None


# A job's ready tasks, by the worker that they should avoid.
_Demand = tuple[int, str | None]


class Scheduler:
    """Makes passes, and remembers the ports that it gave out last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._reader = SnapshotReader(ledger)
        self._last_ports: dict[str, int] = {}
        # Of one look: jobs with cancelled tasks in line, and how many tasks could not be had. Of
        # the whole pass: how many could not, and so are not planned for again; what was broken.
        self._stale: set[int] = set()
        self._missing: dict[_Demand, int] = {}
        self._held: Counter[_Demand] = Counter()
        self._has_gated = False
        self._broken: list[Exception] = []
        self._hanging: Set[str] = frozenset()

    async def run(self, term: Term, *, hanging: Set[str] = frozenset()) -> Pass:
        """Make one pass, which gives nothing to workers that hang in a call. Raises Deposed.

        Where tasks that were cancelled stood in the way, they are cleared away, and it looks again;
        and so it does without those that somebody holds or that are broken, whose room others may
        have.
        """
        placed: list[Placed] = []
        self._held, self._broken, self._hanging = Counter(), [], hanging
        for _ in range(LOOKS_MAX):
            self._stale, self._missing, self._has_gated = set(), {}, False
            placed += await self._look(term)
            self._held.update(self._missing)
            if self._stale:
                await self._ledger.write(_drop_stale, sorted(self._stale))
            elif not self._has_gated and not any(self._missing.values()):
                break
        return Pass(placed, self._broken)

    async def read(self, tx: Transaction) -> Snapshot:
        """Read what there is to place, but for what could not be had in this pass."""
        snapshot = await self._reader.read(tx)
        if self._hanging:
            workers = [_without_new(worker, self._hanging) for worker in snapshot.workers]
            snapshot = snapshot._replace(workers=workers)
        if not self._held:
            return snapshot
        free = [
            demand._replace(count=demand.count - self._held[demand.job_id, demand.avoid])
            for demand in snapshot.demands
            if demand.gang is None or not self._held[demand.job_id, demand.avoid]
        ]
        return snapshot._replace(demands=[demand for demand in free if demand.count > 0])

    async def _look(self, term: Term) -> list[Placed]:
        """Look at everything once, plan, and commit."""
        async with self._ledger.database.transaction() as tx:
            await hold_term(tx, term)
            await open_due_placed(tx, tasks_max=PLACEMENTS_MAX)
            if not await has_placed_ready(tx):
                return []  # most of the time; the fleet need not be looked at
            snapshot = await self.read(tx)
            await keep_turns(tx, snapshot.shared)
        if snapshot.ended_jobs:
            await self._ledger.write(_drop_ended, snapshot.ended_jobs)
        # In a thread: with very many shapes this takes a while, and workers wait to be called.
        planned = await asyncio.to_thread(
            plan,
            snapshot.workers,
            snapshot.demands,
            snapshot.now,
            placements_max=PLACEMENTS_MAX,
            turns=snapshot.turns,
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
        """Commit a part of a plan, job by job if need be; what cannot be had is left for later."""

        async def commit(part: list[Placement]) -> list[Placed]:
            placed, giver = await self._ledger.write(
                self._commit, term, placements=part, snapshot=snapshot, gang=gang
            )
            giver.note()
            return placed

        groups = groupby(sorted(placements, key=_job_of), _job_of)
        answers, failures = await write_in_parts(commit, [list(group) for _, group in groups])
        for part, error in failures:
            if not isinstance(error, GangIncomplete | LockTimeout):
                self._broken.append(error)
            about = None if gang is None else self._ledger.specs.describe(gang)
            log.info("not placed in this pass: %s", error, extra=about)
            if isinstance(error, GangIncomplete) and error.is_limited:
                await keep_limits_for(self._ledger, error.job_id)
            if not isinstance(error, GangIncomplete) or error.is_limited:
                self._missing.update(_count(part))
        return [placed for answer in answers for placed in answer]

    async def _commit(
        self,
        ledger: Ledger,
        tx: Transaction,
        term: Term,
        *,
        placements: Sequence[Placement],
        snapshot: Snapshot,
        gang: int | None,
    ) -> tuple[list[Placed], Giver]:
        """Give tasks to workers, as far as what the plan was made of still holds.

        Returns what has been placed, and who knows what it was given.
        """
        giver = Giver(snapshot, self._reader.wants, self._last_ports)
        await hold_term(tx, term)
        open_workers = await hold_open_workers(tx, {p.worker_id for p in placements})
        placements = giver.fit([p for p in placements if p.worker_id in open_workers])
        placements = await self._fit_books(ledger, tx, placements, snapshot=snapshot)
        wanted = _count(placements)
        if gang is not None and wanted[gang, None] != _gang_size(snapshot, gang):
            return [], giver
        await share_limits(tx)  # before tasks are locked: whoever changes limits waits for leases
        chosen, num_gated = await self._take(tx, placements, wanted)
        if gang is not None and len(chosen) != wanted[gang, None]:
            raise GangIncomplete(gang, is_limited=num_gated > 0)
        self._has_gated = self._has_gated or num_gated > 0
        placed = [(item.task_id.job_id, item.avoid) for item in chosen]
        await note_placed(tx, snapshot.shared, snapshot.demands, placed=placed)
        given = [giver.give(item.task_id.job_id, item.worker_id) for item in chosen]
        return await self._assign(ledger, tx, chosen, given=given), giver

    async def _fit_books(
        self,
        ledger: Ledger,
        tx: Transaction,
        placements: Sequence[Placement],
        *,
        snapshot: Snapshot,
    ) -> Sequence[Placement]:
        """Cut a plan down to what claims from queues have left since it was made."""
        planned = {placement.worker_id for placement in placements}
        shared = {w.worker_id: w for w in snapshot.workers if w.worker_id in planned and w.book}
        if not shared:
            return placements
        used = await count_used(ledger, tx, {str(worker.book) for worker in shared.values()})
        free = {w.worker_id: subtract(w.capacity, used[str(w.book)]) for w in shared.values()}
        fitting = []
        for placement in placements:
            worker_id, count = placement.worker_id, placement.count
            if worker_id in free:
                shape = self._reader.wants[placement.job_id].shape
                count, free[worker_id] = take_most(shape, free[worker_id], count)
            if count:
                fitting.append(placement._replace(count=count))
        return fitting

    async def _assign(
        self, ledger: Ledger, tx: Transaction, chosen: list[_Chosen], *, given: list[Given]
    ) -> list[Placed]:
        if not chosen:
            return []
        specs = await ledger.specs.load(tx, {item.task_id.job_id for item in chosen})
        lease_min = timedelta(seconds=ledger.limits.placed_lease_seconds_min)
        tasks = [
            _placed_task(item, mine, specs[item.task_id.job_id].terms, lease_min=lease_min)
            for item, mine in zip(chosen, given, strict=True)
        ]
        count = await place_tasks(tx, tasks)
        assert count == len(chosen), "a locked task could not be placed"
        await _keep_given(tx, chosen, given)
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

    async def _take(
        self,
        tx: Transaction,
        placements: Sequence[Placement],
        wanted: Counter[_Demand],
    ) -> tuple[list[_Chosen], int]:
        """Take ready tasks for placements; fewer than planned, if some have gone or are held.

        Says how many stand behind a limit now; others may have the room.
        """
        keys = sorted(wanted, key=lambda key: (key[0], key[1] or ""))
        taken = await take_ready_of_jobs(tx, [WantedOfJob(*key, wanted[key]) for key in keys])
        had = Counter((task.job_id, task.avoid) for task in taken)
        self._missing.update({key: wanted[key] - had[key] for key in keys})
        live: list[TakenOfJob] = []
        for task in taken:
            if task.state == TaskState.PENDING and task.job_is_live:
                live.append(task)
            else:
                self._stale.add(task.job_id)
        passed = await pass_placed(tx, live) if live else {}
        fresh: dict[_Demand, list[TakenOfJob]] = defaultdict(list)
        for task in live:
            use = passed.get(TaskId(task.job_id, task.task_index))
            if use is None or use.may_start:
                fresh[task.job_id, task.avoid].append(task)
        num_gated = len(passed) - sum(use.may_start for use in passed.values())
        return _share_out(placements, fresh, passed), num_gated


def _without_new(worker: WorkerView, hanging: Set[str]) -> WorkerView:
    """Keep new tasks from a worker that hangs; what it has stays booked."""
    if worker.worker_id not in hanging:
        return worker
    return worker._replace(accepts=False, why_not="hangs in a heartbeat")


def _share_out(
    placements: Sequence[Placement],
    fresh: dict[_Demand, list[TakenOfJob]],
    passed: Mapping[TaskId, Passed],
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
                task.avoid,
                passed.get(TaskId(task.job_id, task.task_index)),
            )
            for task in share
        ]
    return sorted(chosen, key=lambda item: item.task_id)


def _placed_task(
    item: _Chosen, given: Given, terms: TaskTerms, *, lease_min: timedelta
) -> PlacedTask:
    return PlacedTask(
        item.task_id,
        item.worker_id,
        # A job may have come by SQL, or before heartbeats were made rarer.
        max(terms.lease_duration, lease_min),
        terms.run_timeout,
        *_texts(given),
        None if item.passed is None else item.passed.held,
        None if item.passed is None else item.passed.slots,
    )


def _texts(given: Given) -> tuple[str | None, str | None]:
    ports, devices = given
    return json.dumps(ports) if ports else None, json.dumps(devices) if devices else None


async def _keep_given(tx: Transaction, chosen: list[_Chosen], given: list[Given]) -> None:
    noted = [
        AttemptUsage(item.task_id, item.attempt, *_texts(mine))
        for item, mine in zip(chosen, given, strict=True)
        if any(mine)
    ]
    if noted:
        await keep_usage(tx, noted)


async def _drop_ended(_: Ledger, tx: Transaction, job_ids: list[int]) -> None:
    """Clear the demand of tasks whose jobs have ended or were cancelled."""
    await drop_ready_of_ended_jobs(tx, job_ids, STALE_MAX)


async def _drop_stale(_: Ledger, tx: Transaction, job_ids: list[int]) -> None:
    """Clear the demand of tasks that were cancelled one by one."""
    await drop_stale_ready(tx, job_ids, STALE_MAX)


def _job_of(placement: Placement) -> int:
    return placement.job_id


def _count(placements: Iterable[Placement]) -> Counter[_Demand]:
    """Count how many tasks a plan takes of each demand."""
    wanted: Counter[_Demand] = Counter()
    for placement in placements:
        wanted[placement.job_id, placement.avoid] += placement.count
    return wanted


def _gang_size(snapshot: Snapshot, job_id: int) -> int | None:
    return next((demand.gang for demand in snapshot.demands if demand.job_id == job_id), None)
