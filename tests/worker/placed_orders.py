"""Calls to a worker of placed work, written by hand: late, repeated, contradictory."""

from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.workers.resources import Resources
from holdfast.wire.answers import AttemptName
from holdfast.wire.cluster import (
    CompletedTask,
    PlacedJob,
    TaskToKill,
    TaskToRun,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.worker.placed.worker import PlacedWorker
from tests.waiting import eventually

EPOCH = 1000  # later than any term of a test's server


def a_job(**changes: Any) -> PlacedJob:
    """Describe a job that sleeps, with ten minutes for everything."""
    fields: dict[str, Any] = {
        "job_id": "999",
        "name": "n",
        "type": "t",
        "entrypoint": Entrypoint(shell="exec sleep 600"),
        "num_tasks": 1,
        "lease": 600.0,
        "grace": 600.0,
        "correlation_id": "c",
        "resources": Resources(),
    }
    return PlacedJob(**fields | changes)


def an_order(attempt: int = 0, *, shell: str = "exec sleep 600", **changes: Any) -> TaskToRun:
    """Order an attempt; changes are those of its job, but for `lease_ms` and `cancel_ms`."""
    own = {name: changes.pop(name) for name in ("lease_ms", "cancel_ms") if name in changes}
    job = a_job(entrypoint=Entrypoint(shell=shell), **changes)
    fields: dict[str, Any] = {
        "task_id": "999.0",
        "attempt": attempt,
        "lease_token": uuid4(),
        "lease_ms": 600_000,
        "job": msgspec.Raw(msgspec.json.encode(job)),
    }
    return TaskToRun(**fields | own)


def softly(order: TaskToRun) -> TaskToRun:
    """Ask an attempt to stop, with ten minutes of grace."""
    return msgspec.structs.replace(order, cancel_ms=600_000)


class Caller:
    """Calls a worker as the leader of a later term would, and names the last answer as stored."""

    def __init__(self, worker: PlacedWorker) -> None:
        self._worker = worker
        self._numbers = count(1)
        self._answered: int | None = None

    def call(
        self,
        run: Sequence[TaskToRun] = (),
        kill: Sequence[TaskToRun] = (),
        heard: Sequence[TaskToRun] = (),
        **changes: Any,
    ) -> WorkerHeartbeatAnswer:
        """Call once; `heard` are attempts whose ends are acknowledged."""
        fields: dict[str, Any] = {
            "worker_id": self._worker.worker_id,
            "epoch": EPOCH,
            "number": next(self._numbers),
            "answered_epoch": None if self._answered is None else EPOCH,
            "answered_number": self._answered,
            "tasks_to_run": list(run),
            "tasks_to_kill": [TaskToKill(t.task_id, t.attempt, t.lease_token) for t in kill],
            "acknowledged": [AttemptName(task.task_id, task.attempt) for task in heard],
        }
        answer = self._worker.obey(WorkerHeartbeatRequest(**fields | changes))
        self._answered = answer.number
        return answer

    async def until_running(self, *run: TaskToRun) -> None:
        """Call until these run, all of them."""

        def is_running() -> bool:
            return {task.state for task in self.call(run).running_tasks} == {"RUNNING"}

        await eventually(is_running)

    async def until_ended(
        self, run: Sequence[TaskToRun] = (), kill: Sequence[TaskToRun] = ()
    ) -> list[CompletedTask]:
        """Call until everything there has ended, and say how."""

        def ends() -> list[CompletedTask]:
            answer = self.call(run, kill)
            return [] if answer.running_tasks else answer.completed_tasks

        return await eventually(ends)
