"""A worker of placed work that does what a test tells it, and otherwise what a good one does."""

from typing import Any
from uuid import UUID

import msgspec

from holdfast.model.work.ids import TaskId
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.cluster import (
    CompletedTask,
    RunningTask,
    TaskToRun,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)

Key = tuple[str, int]


class Held:
    """One attempt on the worker."""

    def __init__(self, task: TaskToRun) -> None:
        self.task_id = task.task_id
        self.attempt = task.attempt
        self.token: UUID = task.lease_token
        self.state = "ASSIGNED"
        self.end: CompletedTask | None = None

    @property
    def key(self) -> Key:
        """Tell it from every other."""
        return self.task_id, self.attempt

    def complete(self, status: Any, **fields: Any) -> None:
        """Have it end."""
        fields = {"start_reported": False} | fields
        self.end = CompletedTask(self.task_id, self.token, status, attempt=self.attempt, **fields)


def secret_of(worker_id: str) -> str:
    """Give the secret that a stand-in registers with."""
    return f"secret-of-{worker_id}".ljust(16, "-")


class StandIn:
    """One incarnation: what it was told, what it has, and what it says."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.credential = WorkerCredential(worker_id, secret_of(worker_id))
        self.secret = self.credential.secret
        self.is_silent = False
        self.takes_work = True
        self.calls: list[WorkerHeartbeatRequest] = []
        self.held: dict[Key, Held] = {}
        self._gone: set[Key] = set()

    @property
    def last_call(self) -> WorkerHeartbeatRequest:
        """What it was told last."""
        return self.calls[-1]

    def obey(self, request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
        """Take what is wanted, end what is not, and say what is here."""
        if self.calls:
            last = self.last_call
            assert (request.epoch, request.number) > (last.epoch, last.number), "an old call"
        self.calls.append(request)
        for name in request.acknowledged:
            if self.held.pop((name.task_id, name.attempt), None) is not None:
                self._gone.add((name.task_id, name.attempt))
        wanted = {(task.task_id, task.attempt) for task in request.tasks_to_run}
        for task in request.tasks_to_run if self.takes_work else []:
            key = (task.task_id, task.attempt)
            # Without a stored answer there is nothing that the lease could count from.
            if key not in self.held and key not in self._gone and task.lease_ms is not None:
                assert bytes(task.job) != b"null", "an attempt is new here, and its job is not told"
                self.held[key] = Held(task)
        for key, held in self.held.items():
            if key not in wanted and held.end is None:
                held.complete("killed")
        self._gone &= wanted
        return self.answer(request)

    def answer(self, request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
        """Say what is here."""
        return WorkerHeartbeatAnswer(
            worker_id=self.worker_id,
            epoch=request.epoch,
            number=request.number,
            running_tasks=[
                RunningTask(
                    task_id=held.task_id,
                    attempt=held.attempt,
                    lease_token=held.token,
                    state=held.state,
                )
                for held in self.held.values()
                if held.end is None
            ],
            completed_tasks=[held.end for held in self.held.values() if held.end is not None],
        )

    def running(self) -> list[str]:
        """List the tasks that are here and have not ended."""
        return [held.task_id for held in self.held.values() if held.end is None]

    def build(self, task_id: TaskId) -> None:
        """Fetch what an attempt needs."""
        self._current(task_id).state = "BUILDING"

    def start(self, task_id: TaskId) -> None:
        """Begin to run the user's code."""
        self._current(task_id).state = "RUNNING"

    def succeed(self, task_id: TaskId, result: Any = msgspec.UNSET) -> None:
        """Have an attempt end well."""
        text = result if result is msgspec.UNSET else msgspec.Raw(msgspec.json.encode(result))
        self._current(task_id).complete("succeeded", exit_code=0, result=text)

    def fail(self, task_id: TaskId, error: str = "boom", **fields: Any) -> None:
        """Have an attempt fail."""
        self._current(task_id).complete("failed", error=error, **{"exit_code": 1} | fields)

    def end(self, task_id: TaskId, status: Any, **fields: Any) -> None:
        """Have an attempt end otherwise."""
        self._current(task_id).complete(status, **fields)

    def drop(self, task_id: TaskId) -> None:
        """Lose an attempt without a trace, and never begin it again."""
        held = self.held.pop(self._current(task_id).key)
        self._gone.add(held.key)

    def _current(self, task_id: TaskId) -> Held:
        [held] = [held for held in self.held.values() if held.task_id == str(task_id)]
        return held
