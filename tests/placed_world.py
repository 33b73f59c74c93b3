"""Placed work told in domain words: workers, one leader, and heartbeats that a test asks for.

Between the two stand the messages of the wire and the rules that read them; only the sockets are
left out.
"""

from itertools import count
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.ending.complete import complete
from holdfast.operations.ending.lost_workers import lose_worker
from holdfast.operations.placed.leadership import Term, lead, resign
from holdfast.operations.placed.place import Scheduler
from holdfast.operations.placed.worker_heartbeats import (
    Failure,
    Heard,
    Prepared,
    count_failures,
    prepare,
    store_answers,
)
from holdfast.operations.register import Placing, Registered, Registration, register
from holdfast.operations.report import report
from holdfast.operations.usage import note_usage
from holdfast.services.leading.worker_calls import interpret, read_answer, write_request
from holdfast.wire.answers import AttemptName
from holdfast.wire.cluster import WorkerHeartbeatRequest
from tests.clock import Clock
from tests.stand_in import StandIn, secret_of
from tests.world import World

GB = 10**9


class PlacedWorld(World):
    """One ledger, its clock, and workers that are called."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        super().__init__(ledger, clock)
        self.workers: dict[str, StandIn] = {}
        self.scheduler = Scheduler(ledger)
        self._acknowledged: dict[str, list[AttemptName]] = {}
        self._numbers = count(1)
        self._leader = uuid4().hex

    async def submit(self, inputs: list[Any] | None = None, **fields: Any) -> int:
        """Submit a job to be placed; returns its id."""
        return await super().submit(inputs, **{"queue": None, "backoff": {"base": 0.0}} | fields)

    async def add(self, *worker_ids: str, **has: Any) -> list[StandIn]:
        """Register workers on hosts of their own, and call them once."""
        added = [StandIn(worker_id) for worker_id in worker_ids]
        for worker in added:
            await self.register(worker, **has)
        await self.beat(*worker_ids)
        return added

    async def register(
        self,
        worker: StandIn,
        *,
        replaces: str | None = None,
        adopts: tuple[Fence, ...] = (),
        host: str | None = None,
        attributes: dict[str, Any] | None = None,
        book: str | None = None,
        **has: Any,
    ) -> Registered:
        """Register a worker with 8 cpu and 32 GB, unless said otherwise."""
        capacity = Capacity(**{"cpu": 8.0, "memory": 32 * GB, "disk": 100 * GB} | has)
        address = f"http://{worker.worker_id}:7000"
        self.workers[worker.worker_id] = worker
        return await register(
            self.ledger,
            Registration(
                worker.worker_id,
                f"name-{host or worker.worker_id}",
                f"host-{host or worker.worker_id}",
                replaces=replaces,
                placing=Placing(address, capacity, attributes or {}, book),
                adopts=adopts,
                secret=worker.secret,
                replaces_secret=None if replaces is None else secret_of(replaces),
            ),
        )

    async def place(self) -> dict[TaskId, str]:
        """Make one pass of the scheduler; returns what it has put where."""
        made = await self.scheduler.run(await self.term())
        made.raise_broken()
        return {item.task_id: item.worker_id for item in made.placed}

    async def placed(self, job_id: int, index: int = 0) -> tuple[TaskId, StandIn]:
        """Have one task placed and started, wherever there is room."""
        task_id = TaskId(job_id, index)
        placed = await self.place()
        worker = self.workers[placed[task_id]]
        await self.beat(worker.worker_id)
        worker.start(task_id)
        await self.beat(worker.worker_id)
        return task_id, worker

    async def beat(self, *worker_ids: str) -> None:
        """Call these workers, or all; a silent one has failed a heartbeat by that."""
        term = await self.term()
        for prepared in await prepare(self.ledger, term, worker_ids or list(self.workers)):
            worker = self.workers[prepared.worker_id]
            if worker.is_silent:
                await self.miss(worker.worker_id)
            else:
                await self._call(term, worker, prepared)

    async def _call(self, term: Term, worker: StandIn, prepared: Prepared) -> None:
        """Call one worker as the leader does."""
        number = next(self._numbers)
        told = self._acknowledged.get(worker.worker_id, [])
        body = write_request(prepared, term.epoch, number, acknowledged=told)
        request = msgspec.json.decode(body, type=WorkerHeartbeatRequest)
        text = msgspec.json.encode(worker.obey(request))
        answer = read_answer(text, worker.worker_id, epoch=term.epoch, number=number)
        meaning = interpret(prepared, answer)
        await note_usage(self.ledger, meaning.usage)
        await report(self.ledger, meaning.starts)
        await complete(self.ledger, meaning.completions)
        self._acknowledged[worker.worker_id] = [
            AttemptName(str(item.fence.task_id), item.fence.attempt)
            for item in meaning.completions[: len(meaning.reported)]
        ]
        heard = Heard(worker.worker_id, number, meaning.running)
        await store_answers(self.ledger, term, [heard])

    async def miss(self, worker_id: str, reason: str = "no answer within 10 s") -> str:
        """Let a heartbeat fail; returns how its worker is by that."""
        failures = [Failure(worker_id, reason)]
        [judged] = await count_failures(self.ledger, await self.term(), failures)
        if judged.health == "dead":
            await lose_worker(self.ledger, worker_id, judged.cause)
        return judged.health

    async def die(self, worker: StandIn) -> None:
        """Let a worker be silent until it counts as dead."""
        worker.is_silent = True
        for _ in range(3):
            await self.beat(worker.worker_id)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass tick by tick: workers are called, chores run."""
        while seconds > 0:
            step = min(seconds, 5.0)
            await self.watch()  # what the test itself takes is no outage
            await self.clock.advance(step)
            await self.beat()
            await self.run_chores()
            seconds -= step

    async def restart(self) -> None:
        """Let the server that leads go, and another one begin with nothing but the tables."""
        await resign(self.ledger, self._leader)
        self._leader = uuid4().hex
        self.ledger = Ledger(self.ledger.database)
        self.scheduler = Scheduler(self.ledger)
        self._acknowledged = {}
        self._numbers = count(1)

    async def term(self) -> Term:
        """Lead."""
        term = await lead(self.ledger, self._leader)
        assert term is not None, "somebody else leads"
        return term

    async def fence(self, task_id: TaskId) -> Fence:
        """Read what the holder of a task's lease must present."""
        lease = await self.lease(task_id)
        assert lease is not None, f"nobody holds {task_id}"
        return Fence(task_id, lease["attempt"], lease["lease_token"])

    async def worker(self, worker_id: str) -> Any:
        """Read a worker's row."""
        query = "select * from holdfast.workers where worker_id = $1"
        [row] = await self.clock.fetch(query, worker_id)
        return row

    async def states(self, job_id: int) -> list[TaskState]:
        """Read where the tasks of a job stand."""
        rows = await self.clock.fetch(
            "select state from holdfast.tasks where job_id = $1 order by task_index", job_id
        )
        return [TaskState(row[0]) for row in rows]


async def break_moves(world: World, job_id: int) -> None:
    """Have every move of a job's tasks fail."""
    await world.clock.fetch(
        "create function public.break_off() returns trigger language plpgsql as "
        "'begin raise ''broken''; end'"
    )
    await world.clock.fetch(
        "create trigger broken before update on holdfast.tasks for each row "
        f"when (new.job_id = {job_id}) execute function public.break_off()"
    )
