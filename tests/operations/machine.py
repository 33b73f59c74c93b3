"""One database and its model, for a machine that takes both through the same steps."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

from hypothesis.stateful import RuleBasedStateMachine

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import IllegalMove, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import OPEN_STATES
from holdfast.operations.upkeep.audit import audit
from holdfast.store.database import Database
from protocol import trace
from tests.clock import Clock
from tests.databases import give_back_database, take_database
from tests.operations import model_tables as tables
from tests.operations.ledger_model import CONFLICT, LedgerModel
from tests.operations.model_state import ModelTask
from tests.world import World

Answer = TypeVar("Answer")
OFTEN = 12
START = datetime.fromisoformat("2030-01-01T00:00:00+00:00")


class Machine(RuleBasedStateMachine):
    """The ground that the rules of a machine stand on; its clock moves when told to only."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        super().__init__()
        self.postgres = postgres
        self.name = ""
        self.model = LedgerModel(START)
        self.workers = ["w1", "w2", "w3"]
        # One that nobody ever held is there from the start, so that there is always one to pick.
        self.fences = [Fence(TaskId(1, 0), 0, uuid4())]
        self.is_sound = False
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self._run(self._open())

    def ask(self, question: Coroutine[Any, Any, Answer]) -> Answer:
        """Ask the ledger; that it cannot be is an answer like any other."""
        return self._run(_answered(question))

    def compare(self) -> None:
        """See that the tables are as the model has them."""
        self._run(self._compare())
        self.is_sound = True

    def advance(self, seconds: float) -> None:
        """Let time pass, for both."""
        self._run(self.clock.advance(seconds))
        self.model.now += timedelta(seconds=seconds)

    def task(self, pick: int) -> ModelTask:
        """Pick a task, counted from the newest back and around."""
        tasks = list(self.model.tasks())
        return tasks[-1 - pick % len(tasks)]

    def open_task(self, pick: int) -> ModelTask:
        """Pick a task: mostly one that has an open attempt, now and then any."""
        tasks = [task for task in self.model.tasks() if task.state in OPEN_STATES]
        return tasks[-1 - pick % len(tasks)] if tasks and pick < OFTEN else self.task(pick)

    def fence(self, pick: int) -> Fence:
        """Pick a fence: mostly one whose lease is held, now and then any that ever was."""
        held = {task.lease.token for task in self.model.tasks() if task.lease is not None}
        current = [fence for fence in self.fences if fence.lease_token in held]
        fences = current if current and pick < OFTEN else self.fences
        return fences[-1 - pick % len(fences)]

    def teardown(self) -> None:
        """Compare the whole history, ask the audit, and leave nothing behind."""
        try:
            if self.is_sound:
                self._run(self._compare_history())
        finally:
            self.runner.run(self._close())
            self.runner.close()

    def _run(self, step: Coroutine[Any, Any, Answer]) -> Answer:
        """Take a step; unless a comparison follows, nothing is worth comparing at the end."""
        self.is_sound = False
        return self.runner.run(step)

    async def _open(self) -> None:
        self.name = await take_database(self.postgres)
        url = self.postgres.url(self.name)
        self.ledger = Ledger(await self.stack.enter_async_context(Database(url)))
        self.clock = await self.stack.enter_async_context(Clock(url))
        await self.clock.fetch(
            "create or replace function holdfast.now() returns timestamptz language sql volatile "
            f"as $$select timestamptz '{START}' + (select shift from public.test_clock)$$"
        )
        self.world = World(self.ledger, self.clock)
        await self.world.watch()

    async def _close(self) -> None:
        await self.stack.aclose()
        await give_back_database(self.postgres, self.name)

    async def _compare(self) -> None:
        await tables.compare_tasks(self.clock, self.model)
        await tables.compare_leases(self.clock, self.model)
        await tables.compare_jobs(self.clock, self.model)
        await tables.compare_line(self.clock, self.model)

    async def _compare_history(self) -> None:
        await tables.compare_history(self.clock, self.model)
        await tables.compare_notes(self.clock, self.model)
        assert [finding async for finding in audit(self.ledger.database)] == []
        _, illegal = await trace.check_database(self.postgres.url(self.name))
        assert not illegal, "\n".join(map(str, illegal))


async def _answered(question: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        return await question
    except (LeaseConflict, IllegalMove):
        return CONFLICT  # type: ignore[return-value]
