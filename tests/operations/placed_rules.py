"""Placed work in random sequences: a worker with devices, restarted, lost, and its next process."""

import json
from typing import Any

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.ending.lost_workers import lose_worker
from holdfast.operations.placed.leadership import lead
from holdfast.operations.placed.place import Placed, Scheduler
from holdfast.operations.placed.worker_heartbeats import (
    Failure,
    Heard,
    count_failures,
    store_answers,
)
from holdfast.operations.register import Placing, Registration, register
from tests.operations.machine import Machine
from tests.operations.model_state import ModelLease, ModelTask

NAME = "g"
DEVICES = ("0", "1", "2")
# One of those that claim from queues is the other half of its process.
BOOK = "b"
BOOK_CORES = 4.0


def shares_book(worker: str) -> bool:
    """Tell whether a worker, or the one whose place it has taken, claims by the book."""
    return worker.startswith("w3")


class PlacedRules(Machine):
    """One name under which placed work is done, by one incarnation after the other."""

    incarnation = 0

    @property
    def placed_worker(self) -> str:
        """The incarnation that is there now."""
        return f"{NAME}{self.incarnation}"

    def come_up(self, replaces: str | None = None, adopts: tuple[Fence, ...] = ()) -> Any:
        """Register the next incarnation, which answers at once."""
        self.incarnation += 1
        capacity = Capacity(cpu=BOOK_CORES, gpu=len(DEVICES))
        placing = Placing("http://g:7000", capacity, {}, BOOK)
        registered = self.ask(
            register(
                self.ledger,
                Registration(
                    self.placed_worker,
                    NAME,
                    "host",
                    (),
                    replaces,
                    placing=placing,
                    adopts=adopts,
                    secret="s" * 16,
                    replaces_secret=None if replaces is None else "s" * 16,
                ),
            )
        )
        self.ask(self._answer(()))
        return registered

    def place(self) -> None:
        """Let the scheduler make a pass; the worker names what it is given."""
        waiting = self._waiting()
        was_idle = not self.cores_booked()
        placed = self.ask(self._place())
        for item in placed:
            row: Any = self.ask(self.world.lease(item.task_id))
            task = waiting.pop(item.task_id)
            devices = json.loads(row["devices"] or "[]")
            assert set(devices) <= set(DEVICES)
            self.model.place(task, item.worker_id, row["lease_token"], devices)
            self.fences.append(Fence(item.task_id, item.attempt, row["lease_token"]))
        assert placed or not (was_idle and waiting), "something would have fitted"

    def cores_booked(self) -> float:
        """Add up the cores that both halves of the process have taken."""
        claimed = sum(self.model.cpu_of(name) for name in self.workers if shares_book(name))
        placed = [self.model.needs_of(task) for task, _ in self._held()]
        return claimed + sum(1.0 if need is None else need.cpu for need in placed)

    def restart(self, keep: int) -> None:
        """Let the next process take over: `keep` says in bits what it finds running."""
        old = self.placed_worker
        held = [lease for _, lease in self._held() if lease.worker == old]
        kept = [lease for number, lease in enumerate(held) if keep >> number & 1]
        tokens = {lease.token for lease in kept}
        fences = tuple(fence for fence in self.fences if fence.lease_token in tokens)
        self.come_up(replaces=old, adopts=fences)
        for lease in kept:
            lease.worker = self.placed_worker
        self.model.replace(old)

    def lose(self) -> None:
        """Let a process die for good; the next one knows nothing of what may still run."""
        old = self.placed_worker
        self.ask(self._die())
        self.model.lose(old)
        self.come_up()

    def _waiting(self) -> dict[TaskId, ModelTask]:
        tasks = (task for task in self.model.tasks() if self.model.is_claimable(task))
        return {task.id: task for task in tasks if self.model.job_of(task).terms.queue is None}

    def _held(self) -> list[tuple[ModelTask, ModelLease]]:
        held = ((task, task.lease) for task in self.model.tasks() if task.lease is not None)
        return [(task, lease) for task, lease in held if lease.worker.startswith(NAME)]

    async def _place(self) -> list[Placed]:
        made = await Scheduler(self.ledger).run(await self._term())
        made.raise_broken()
        fences = []
        for item in made.placed:
            lease = await self.world.lease(item.task_id)
            assert lease is not None
            fences.append(Fence(item.task_id, item.attempt, lease["lease_token"]))
        await self._answer(tuple(fences))
        return made.placed

    async def _answer(self, running: tuple[Fence, ...]) -> None:
        heard = [Heard(self.placed_worker, 1, running)]
        assert await store_answers(self.ledger, await self._term(), heard) == [True]

    async def _die(self) -> None:
        for _ in range(3):
            failures = [Failure(self.placed_worker, "no answer")]
            [judged] = await count_failures(self.ledger, await self._term(), failures)
        assert judged.health == "dead"
        await lose_worker(self.ledger, self.placed_worker, judged.cause)

    async def _term(self) -> Any:
        return await lead(self.ledger, "leader")
