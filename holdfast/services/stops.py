"""Tell workers which of their attempts should stop, soon after it was decided.

A worker keeps one heartbeat waiting here. Twice a second the few leases that were asked to stop are
read; each is sent to its worker once, and again by every renewal, so that nothing is lost with us.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId, check_worker_id
from holdfast.model.work.outcomes import CancelMode
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.store.tables.work.leases import find_holder, list_asked_to_stop
from holdfast.store.tables.workers.workers import list_draining, see_workers

WORKER = "worker"


class Stop(NamedTuple):
    """An attempt that should stop: softly within what remains, or at once."""

    task_id: TaskId
    attempt: int
    mode: CancelMode
    remaining: timedelta | None


class Stops:
    """What the workers that wait at this server have been sent."""

    def __init__(self, ledger: Ledger, doorbells: Doorbells) -> None:
        self._ledger = ledger
        self._doorbells = doorbells
        self._sent: dict[str, set[Stop]] = {}
        self._seen: set[str] = set()
        # Nobody comes back from draining, and few are drained: once learned, it is kept.
        self.draining: set[str] = set()

    def see(self, worker_id: str) -> None:
        """Remember that a worker has been heard of."""
        self._seen.add(worker_id)

    async def see_caller(self, worker_id: str | None, fence: Fence | None) -> str | None:
        """Remember that a worker has been heard of: it names itself, or the one lease it holds."""
        if worker_id is None:
            if fence is None:
                raise Invalid("worker_id", "is missing; only a single lease says whose it is")
            async with self._ledger.database.transaction() as tx:
                worker_id = await find_holder(tx, fence)
        if worker_id is not None:
            self.see(check_worker_id(worker_id))
        return worker_id

    async def wait(self, worker_id: str, seconds_max: float) -> list[Stop]:
        """Wait until there is something new to tell a worker."""
        with self._doorbells.listen([Bell(WORKER, worker_id)]) as listener:
            news = await self._take_news([worker_id])
            if not news and not self._doorbells.is_closed and worker_id not in self.draining:
                await listener.wait(seconds_max)
                news = await self._take_news([worker_id])
        return news.get(worker_id, [])

    async def look(self) -> int:
        """Ring the workers for whom there is something new."""
        listening = self._doorbells.names(WORKER)
        if not listening:
            self._sent.clear()
            return 0
        found = await self._read(listening)
        for worker_id, stops in found.items():
            if {_key(stop) for stop in stops} - {_key(s) for s in self._sent.get(worker_id, ())}:
                self._doorbells.ring(Bell(WORKER, worker_id))
        self._sent = {w: sent for w, sent in self._sent.items() if w in found}
        return 0

    async def note_workers(self) -> int:
        """Store who has been heard of since the last time, and learn who should drain."""
        seen, self._seen = sorted(self._seen), set()
        known = sorted({*seen, *self._doorbells.names(WORKER)} - self.draining)
        if not seen and not known:
            return 0
        async with self._ledger.database.transaction() as tx:
            await see_workers(tx, seen)
            draining = await list_draining(tx, known)
        for worker_id in draining:
            self.draining.add(worker_id)
            self._doorbells.ring(Bell(WORKER, worker_id))
        return 0

    async def _take_news(self, worker_ids: Sequence[str]) -> dict[str, list[Stop]]:
        found = await self._read(worker_ids)
        news = {}
        for worker_id, stops in found.items():
            sent = {_key(stop) for stop in self._sent.get(worker_id, ())}
            news[worker_id] = [stop for stop in stops if _key(stop) not in sent]
            self._sent[worker_id] = set(stops)
        return {worker_id: stops for worker_id, stops in news.items() if stops}

    async def _read(self, worker_ids: Sequence[str]) -> dict[str, list[Stop]]:
        async with self._ledger.database.transaction() as tx:
            rows = await list_asked_to_stop(tx, worker_ids)
        found: dict[str, list[Stop]] = {}
        for worker_id, job_id, task_index, attempt, ending, deadline, now in rows:
            remaining = None if ending else max(deadline - now, timedelta())
            stop = Stop(
                TaskId(job_id, task_index), attempt, "hard" if ending else "soft", remaining
            )
            found.setdefault(worker_id, []).append(stop)
        return found


def _key(stop: Stop) -> tuple[TaskId, int, CancelMode]:
    return stop.task_id, stop.attempt, stop.mode
