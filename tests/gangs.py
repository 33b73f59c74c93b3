"""One gang and what happens to it, for tests that read like a story."""

from datetime import timedelta
from typing import Any

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.register import Placing, Registration, register
from holdfast.store.database import Transaction
from holdfast.store.tables.placed.leases import PlacedTask, place_tasks
from holdfast.store.tables.work.tasks import lock_tasks
from tests.world import TaskRow, World

LEASE = 60.0


class Gang:
    """The members of one job with coscheduling, each on a worker of its own."""

    def __init__(self, world: World, job_id: int) -> None:
        self.world = world
        self.job_id = job_id
        self.fences: dict[int, Fence] = {}

    async def ready(self) -> list[int]:
        """List the members that could be placed this moment."""
        rows = await self.world.clock.fetch(
            "select task_index from holdfast.ready where job_id = $1 order by 1", self.job_id
        )
        return [row[0] for row in rows]

    async def place(self, *, acknowledged: bool = True) -> list[int]:
        """Place every member that has not succeeded, all at once; returns who was placed."""
        members = await self.ready()
        job = await self.world.job(self.job_id)
        assert len(members) == job["num_tasks"] - job["succeeded"], "a member cannot be placed yet"
        await self.world.clock.fetch("delete from holdfast.ready where job_id = $1", self.job_id)
        for member in members:
            await _add_host(self.world.ledger, f"host-{member}")
        await self.world.ledger.write(_place, [TaskId(self.job_id, index) for index in members])
        await self.world.clock.fetch(
            "update holdfast.leases set acknowledged = $2 where job_id = $1",
            self.job_id,
            acknowledged,
        )
        rows = await self.world.clock.fetch(
            "select task_index, attempt, lease_token from holdfast.leases "
            "where job_id = $1 and not ending",
            self.job_id,
        )
        self.fences |= {row[0]: Fence(TaskId(self.job_id, row[0]), row[1], row[2]) for row in rows}
        return members

    async def complete(self, **ends: Any) -> list[bool]:
        """Report ends in one transaction, as `m0="failed"`; returns whether each was accepted."""
        return await self.report(
            *(
                Completion(self.fences[int(name[1:])], status, error=f"boom of {name}")
                for name, status in ends.items()
            )
        )

    async def report(self, *completions: Completion) -> list[bool]:
        """Report ends in one transaction; returns whether each was accepted."""
        answers = await complete(self.world.ledger, completions)
        assert all(isinstance(answer, Completed) for answer in answers), answers
        return [answer.accepted for answer in answers if isinstance(answer, Completed)]

    async def succeed(self, *members: int) -> None:
        """Report success."""
        accepted = await self.report(
            *(Completion(self.fences[member], "succeeded") for member in members)
        )
        assert all(accepted)

    async def confirm(self, *members: int) -> None:
        """Let workers confirm that the processes of ending attempts are gone."""
        accepted = await self.report(
            *(Completion(self.fences[member], "killed") for member in members)
        )
        assert not any(accepted)

    async def tasks(self) -> list[TaskRow]:
        """Read all members."""
        job = await self.world.job(self.job_id)
        return [
            await self.world.task(TaskId(self.job_id, index)) for index in range(job["num_tasks"])
        ]

    async def states(self) -> list[TaskState]:
        """Read where the members stand."""
        return [task.state for task in await self.tasks()]

    async def last_ends(self) -> list[tuple[TaskState, str | None]]:
        """Read how each member's last ended attempt ended, and what is said of it."""
        return [
            (TaskState(task.attempts[-1]["state"]), task.attempts[-1]["error"])
            for task in await self.tasks()
        ]

    async def spent(self) -> tuple[int, int]:
        """Add up the members' failures and preemptions."""
        tasks = await self.tasks()
        return sum(t.failure_count for t in tasks), sum(t.preemption_count for t in tasks)

    async def ending(self) -> list[int]:
        """List the members whose last lease has not been released."""
        rows = await self.world.clock.fetch(
            "select task_index from holdfast.leases where job_id = $1 and ending order by 1",
            self.job_id,
        )
        return [row[0] for row in rows]


async def a_gang(world: World, replicas: int = 3, **fields: Any) -> Gang:
    """Submit a gang; retries come at once unless said otherwise."""
    defaults = {"queue": None, "coscheduling": {}, "backoff": {"base": 0.0}}
    return Gang(world, await world.submit(replicas=replicas, **defaults | fields))


async def _add_host(ledger: Ledger, host: str) -> None:
    placing = Placing(f"http://{host}:7000", Capacity(cpu=1e6), {})
    await register(ledger, Registration(host, host, host, placing=placing, secret="s" * 16))


async def _place(_: Ledger, tx: Transaction, members: list[TaskId]) -> None:
    await lock_tasks(tx, members)
    lease = timedelta(seconds=LEASE)
    placed = [PlacedTask(member, f"host-{member.task_index}", lease) for member in members]
    await place_tasks(tx, placed)
    moves = Moves()
    for member in members:
        moves.add(member.job_id, TaskState.PENDING, TaskState.ASSIGNED)
    await apply_moves(tx, moves)
