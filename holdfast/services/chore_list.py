"""The list of chores that keep the ledger moving while nobody asks for anything."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.ledger.ledger import Ledger
from holdfast.operations.datasets.versions import sweep_dropped
from holdfast.operations.ending import reap
from holdfast.operations.ending.dependents import find_forgotten
from holdfast.operations.schedules.fire import fire_due
from holdfast.operations.sharing import lines as share_lines
from holdfast.operations.upkeep import expire, partitions, prune, requeue
from holdfast.operations.upkeep.ages import Ages
from holdfast.operations.upkeep.prune import Retention
from holdfast.operations.usage_limits import open as gates
from holdfast.operations.usage_limits import tend as tend_limits
from holdfast.services.chores import Chore
from holdfast.services.reasons import Reasons
from holdfast.services.stops import Stops
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.store.database import LockTimeout
from holdfast.store.tables.work.jobs import list_finished
from holdfast.store.tables.work.ready import list_queues_with_work

WALK_MAX = 1000
SUMMARIES_FULL = 1_000_000  # one call adds all there are


def list_chores(
    ledger: Ledger,
    doorbells: Doorbells,
    stops: Stops,
    *,
    reasons: Reasons,
    gated: asyncio.Event,
    retention: Retention,
) -> list[Chore]:
    """List every chore of a server; each may run on all servers at once.

    `gated` is set when a claim has put tasks behind a limit, whose slot may be free by now.
    """
    return [
        Chore("reap leases", 1.0, partial(reap.reap, ledger), full=reap.BATCH_MAX),
        Chore("requeue due", 0.25, requeue.Due(ledger).requeue, full=requeue.BATCH_MAX),
        Chore("fire schedules", 0.5, partial(fire_due, ledger)),
        Chore("clear lines", 30.0, requeue.Lines(ledger).clear),
        Chore(
            "sort shares",
            1.0,
            partial(share_lines.sort_shares, ledger),
            full=share_lines.SORTED_MAX,
        ),
        Chore("age tasks in shares", 5.0, partial(share_lines.age, ledger)),
        Chore("look behind limits", 1.0, tend_limits.Gates(ledger).look, wake=gated),
        Chore("clear what limits hold back", 5.0, tend_limits.Cancelled(ledger).clear),
        Chore("follow the clock", 1.0, tend_limits.Clocks(ledger).look),
        Chore("drop idle buckets", 30.0, tend_limits.Buckets(ledger).clear),
        Chore("give up scheduling", 1.0, _give_up(ledger, reasons)),
        Chore("expire", 1.0, partial(expire.expire, ledger), full=expire.BATCH_MAX),
        Chore("look for forgotten dependents", 30.0, Forgotten(ledger).look),
        Chore("end jobs over their age", 5.0, Ages(ledger).look),
        Chore("ring for ready tasks", 1.0, _look(ledger, doorbells)),
        Chore("ring for ended jobs", 0.5, _watch(ledger, doorbells)),
        Chore("tell what should stop", 0.5, stops.look),
        Chore("note workers", 5.0, stops.note_workers),
        Chore("add partitions", 5.0, partial(partitions.keep_partitions_ahead, ledger)),
        Chore("summarise events", 2.0, _summarise(ledger), full=SUMMARIES_FULL),
        Chore("open what deleted limits held back", 5.0, gates.Forgotten(ledger).look),
        Chore("sweep dropped versions", 5.0, partial(sweep_dropped, ledger)),
        Chore("prune", 60.0, partial(prune.prune, ledger, retention)),
    ]


def _give_up(ledger: Ledger, reasons: Reasons) -> Callable[[], Awaitable[int]]:
    async def find_lacks(job_id: int) -> str | None:
        """Tell what the scheduler would say of a job's tasks."""
        found = await reasons.find(job_id, [None])
        return found[None].message if found else None

    return partial(requeue.give_up_scheduling, ledger, find_lacks)


def _summarise(ledger: Ledger) -> Callable[[], Awaitable[int]]:
    async def summarise() -> int:
        try:
            return await partitions.summarise_events(ledger)
        except LockTimeout:
            return 0  # another server, or a vacuum, is at it

    return summarise


class Forgotten:
    """Walks through what jobs wait for, a stretch a turn."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = 0

    async def look(self) -> int:
        """Look through the next stretch; goes on at once until it has seen all."""
        following = await find_forgotten(self._ledger, self._after, batch_max=WALK_MAX)
        self._after = following or 0
        return following is not None


def _look(ledger: Ledger, doorbells: Doorbells) -> Callable[[], Awaitable[int]]:
    async def look() -> int:
        """Look for those who wait: a hint may be lost, or a claim's rows hidden by an abort."""
        queues = doorbells.names("queue")
        if queues:
            async with ledger.database.transaction() as tx:
                found = await list_queues_with_work(tx, queues)
            for queue in found:
                doorbells.ring(Bell("queue", queue))
        return 0

    return look


def _watch(ledger: Ledger, doorbells: Doorbells) -> Callable[[], Awaitable[int]]:
    async def watch() -> int:
        """Notice jobs that ended through another server."""
        job_ids = [int(name) for name in doorbells.names("job")]
        if job_ids:
            async with ledger.database.transaction() as tx:
                finished = await list_finished(tx, job_ids)
            for job_id in finished:
                doorbells.ring(Bell("job", str(job_id)), worth=1_000_000)
        return 0

    return watch
