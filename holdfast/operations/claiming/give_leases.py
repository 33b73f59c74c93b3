"""Give tasks that were taken out of line to workers, each under a lease."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.work.ready import Passed, TakenTask
from holdfast.store.tables.work.tasks import Assignment, NewLease, assign_tasks
from holdfast.store.tables.workers.workers import list_lost_workers


class Chosen(NamedTuple):
    """A task that was taken out of line, and the request that gets it."""

    task_id: TaskId
    task: TakenTask
    request: ClaimRequest


class AskAgain(Exception):
    """The transaction cannot go on; nothing is wrong with the requests."""


class WorkersLost(AskAgain):
    """Some workers of a batch have been replaced; the rest of it goes on without them."""

    def __init__(self, worker_ids: set[str]) -> None:
        super().__init__(*worker_ids)
        self.worker_ids = worker_ids


async def give_leases(
    tx: Transaction,
    chosen: list[Chosen],
    specs: dict[int, StoredSpec],
    *,
    started: set[TaskId],
    sized: Container[int],
    passed: Mapping[TaskId, Passed],
) -> dict[tuple[int, int], NewLease]:
    """Give each task a lease; those that start at once are another statement."""
    terms = {
        job_id: (stored.terms.lease_duration, stored.terms.run_timeout)
        for job_id, stored in specs.items()
    }
    waiting: list[Assignment] = []
    starting: list[Assignment] = []
    for task_id, task, request in chosen:
        book = request.book if task.job_id in sized else None
        use = passed.get(task_id)
        assignment = Assignment(
            task_id,
            request.worker_id,
            *terms[task.job_id],
            request.idempotency_key,
            book,
            None if use is None else use.held,
            None if use is None else use.slots,
        )
        (starting if task_id in started else waiting).append(assignment)
    leases = await assign_tasks(tx, waiting) if waiting else []
    if starting:
        leases += await assign_tasks(tx, starting, starting=True)
    if len(leases) < len(chosen):
        lost = await list_lost_workers(tx, {request.worker_id for _, _, request in chosen})
        assert lost, "a locked task could not be assigned"
        raise WorkersLost(lost)
    return {(lease.job_id, lease.task_index): lease for lease in leases}
