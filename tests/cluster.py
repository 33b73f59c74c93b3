"""Called workers and what is placed on them, for tests that read like a story."""

from typing import Any

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.ending.lost_workers import lose_worker
from holdfast.operations.placed.leadership import Term, lead
from holdfast.operations.placed.place import Placed, Scheduler
from holdfast.operations.placed.worker_heartbeats import (
    Failure,
    Heard,
    count_failures,
    store_answers,
)
from holdfast.operations.register import Placing, Registration, register
from holdfast.operations.usage import Usage, note_usage
from tests.world import World

GB = 10**9


class Cluster:
    """The leader's side of placed work, without sockets: every step is asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.scheduler = Scheduler(world.ledger)
        self._number = 0

    async def add(self, *worker_ids: str, answers: bool = True, **has: Any) -> None:
        """Register workers on hosts of their own: 8 cpu, 32 GB; they have answered once."""
        attributes = has.pop("attributes", {})
        queues, book = has.pop("queues", ()), has.pop("book", None)
        capacity = Capacity(**{"cpu": 8.0, "memory": 32 * GB, "disk": 100 * GB} | has)
        for worker_id in worker_ids:
            placing = Placing(f"http://{worker_id}:7000", capacity, attributes, book)
            name, host = f"name-{worker_id}", f"host-{worker_id}"
            await register(
                self.world.ledger,
                Registration(worker_id, name, host, queues, placing=placing, secret="s" * 32),
            )
        if answers:
            await self.answer(*worker_ids)

    async def answer(self, *worker_ids: str) -> None:
        """Let workers answer a heartbeat; they name nothing."""
        self._number += 1
        heard = [Heard(worker_id, self._number, ()) for worker_id in worker_ids]
        await store_answers(self.world.ledger, await self._term(), heard)

    async def miss(self, worker_id: str, reason: str = "connection refused") -> None:
        """Let one heartbeat of a worker fail; one that is dead by that loses what it had."""
        failure = Failure(worker_id, reason)
        [found] = await count_failures(self.world.ledger, await self._term(), [failure])
        if found.health == "dead":
            await lose_worker(self.world.ledger, worker_id, found.cause)

    async def place(self) -> list[Placed]:
        """Make one pass of the scheduler."""
        made = await self.scheduler.run(await self._term())
        made.raise_broken()
        return made.placed

    async def end(
        self,
        task_id: TaskId,
        status: Any = "succeeded",
        *,
        usage: Any = None,
        build: Any = None,
    ) -> None:
        """Let a worker say how an attempt ended, and what it has used."""
        lease = await self.world.lease(task_id)
        assert lease is not None, f"nobody holds {task_id}"
        fence = Fence(task_id, lease["attempt"], lease["lease_token"])
        await note_usage(self.world.ledger, [Usage(fence, usage, build)])
        await complete(self.world.ledger, [Completion(fence, status, error="boom")])

    async def _term(self) -> Term:
        term = await lead(self.world.ledger, "leader")
        assert term is not None, "somebody else leads"
        return term
