"""Raw SQL on the ledger's tables, past all code of ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from holdfast.model.work.states import TaskState

MUST_BE_FINISHED = frozenset(
    {TaskState.SUCCEEDED, TaskState.UNSCHEDULABLE, TaskState.DEAD_LETTERED}
)

# How a task gets from PENDING to each state, by legal moves.
PATHS: dict[TaskState, tuple[TaskState, ...]] = {
    TaskState.PENDING: (),
    TaskState.ASSIGNED: (TaskState.ASSIGNED,),
    TaskState.BUILDING: (TaskState.ASSIGNED, TaskState.BUILDING),
    TaskState.RUNNING: (TaskState.ASSIGNED, TaskState.RUNNING),
    TaskState.SUCCEEDED: (TaskState.ASSIGNED, TaskState.RUNNING, TaskState.SUCCEEDED),
    TaskState.FAILED: (TaskState.ASSIGNED, TaskState.RUNNING, TaskState.FAILED),
    TaskState.KILLED: (TaskState.ASSIGNED, TaskState.BUILDING, TaskState.KILLED),
    TaskState.WORKER_FAILED: (TaskState.ASSIGNED, TaskState.WORKER_FAILED),
    TaskState.UNSCHEDULABLE: (TaskState.UNSCHEDULABLE,),
    TaskState.DEAD_LETTERED: (TaskState.DEAD_LETTERED,),
}


class Raw:
    """One connection, and the shortest statements that put a ledger together."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def run(self, statement: str, *arguments: Any) -> None:
        await self.connection.execute(statement, *arguments)

    async def rows(self, query: str, *arguments: Any) -> list[Any]:
        rows: list[Any] = await self.connection.fetch(query, *arguments)
        return rows

    async def value(self, query: str, *arguments: Any) -> Any:
        return await self.connection.fetchval(query, *arguments)

    async def insert(self, table: str, columns: dict[str, str]) -> None:
        """Insert one row of SQL expressions."""
        names, values = ", ".join(columns), ", ".join(columns.values())
        await self.run(f"insert into holdfast.{table} ({names}) values ({values})")

    async def insert_job(self, num_tasks: int = 1, *, shown: bool = True, **columns: str) -> int:
        """Insert a job without tasks; `columns` are SQL expressions that replace the usual ones."""
        job_id: int = await self.value("select nextval('holdfast.job_ids')")
        usual = {
            "job_id": str(job_id),
            "name": "'n'",
            "type": "'t'",
            "owner": "'o'",
            "priority": "0",
            "spec": "'{}'",
            "correlation_id": "'c'",
            "created_at": "holdfast.now()",
            "fan_out": "false",
            "num_tasks": str(num_tasks),
            "pending": str(num_tasks),
        }
        if shown:
            usual |= {
                "submitted_at": "holdfast.now()",
                "seq": "1",
                "event_type": "'submitted'",
                "event_at": "holdfast.now()",
            }
        wanted = usual | columns
        await self.insert("jobs", wanted)
        return job_id

    async def insert_task(self, job_id: int, task_index: int = 0, /, **columns: str) -> None:
        """Insert one task; `columns` are SQL expressions that replace the usual ones."""
        wanted = {
            "job_id": str(job_id),
            "task_index": str(task_index),
            "placed": "false",
            "eligible_at": "holdfast.now()",
            "submitted_at": "holdfast.now()",
            "moved_at": "holdfast.now()",
        } | columns
        await self.insert("tasks", wanted)

    async def insert_whole_job(self, num_tasks: int = 1) -> int:
        """Insert a job with its tasks."""
        job_id = await self.insert_job(num_tasks)
        for task_index in range(num_tasks):
            await self.insert_task(job_id, task_index)
        return job_id

    async def move(
        self, job_id: int, to: TaskState, /, *, finished: bool | None = None, **columns: str
    ) -> None:
        """Move every task of a job; `columns` are SQL expressions that replace the usual ones."""
        if finished is None:
            finished = to in MUST_BE_FINISHED
        wanted = {
            "state": str(int(to)),
            "seq": "seq + 1",
            "attempt": "attempt + 1" if to is TaskState.PENDING else "attempt",
            "moved_at": "holdfast.now()",
            "finished_at": "holdfast.now()" if finished else "null",
        } | columns
        changes = ", ".join(f"{column} = {value}" for column, value in wanted.items())
        await self.run(f"update holdfast.tasks set {changes} where job_id = $1", job_id)

    async def bring_to(self, state: TaskState, *, finished: bool | None = None) -> int:
        """Make a job whose one task stands in this state."""
        job_id = await self.insert_whole_job()
        for step in PATHS[state]:
            await self.move(job_id, step, finished=finished if step is state else None)
        return job_id

    async def insert_lease(self, job_id: int, /, **columns: str) -> None:
        """Insert a lease for a job's first task."""
        wanted = {
            "job_id": str(job_id),
            "task_index": "0",
            "attempt": "0",
            "worker_id": "'w1'",
            "lease_token": f"'{uuid4()}'",
            "created_at": "holdfast.now()",
            "expires_at": "holdfast.now() + interval '30 s'",
            "duration": "interval '30 s'",
        } | columns
        await self.insert("leases", wanted)

    async def insert_attempt(self, job_id: int, /, **columns: str) -> None:
        """Record an ended attempt of a job's first task."""
        wanted = {
            "job_id": str(job_id),
            "task_index": "0",
            "attempt": "0",
            "worker_id": "'w1'",
            "state": "5",
            "created_at": "holdfast.now()",
            "finished_at": "holdfast.now() + interval '1 s'",
            "lease_token": f"'{uuid4()}'",
            "last_lease_expires_at": "holdfast.now()",
            "reported": "true",
        } | columns
        await self.insert("attempts", wanted)

    async def events(self, job_id: int, task_index: int = 0) -> list[tuple[int, str, int]]:
        """List a stream's events as (seq, type, attempt)."""
        rows = await self.rows(
            "select seq, type::text, attempt from holdfast.events "
            "where job_id = $1 and task_index = $2 order by id",
            job_id,
            task_index,
        )
        return [tuple(row) for row in rows]

    @asynccontextmanager
    async def rolled_back(self) -> AsyncIterator[None]:
        """Run a block, then forget what it did."""
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            yield
        finally:
            await transaction.rollback()

    @asynccontextmanager
    async def refused(self, *constraints: str) -> AsyncIterator[None]:
        """Expect the database to refuse a block by the name of one of these constraints."""
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
            async with self.connection.transaction():
                yield
        assert caught.value.constraint_name in constraints, caught.value
