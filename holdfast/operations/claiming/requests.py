"""What a worker asks for when it claims, and what is wrong with that."""

import hashlib
from typing import NamedTuple

from holdfast.errors import Invalid, Refused
from holdfast.model.work.ids import TaskId, check_task_id, check_worker_id
from holdfast.model.workers.resources import Capacity
from holdfast.rules.placement.claim_shares import Asked
from holdfast.rules.submitting.submission import check_text

TASKS_PER_CLAIM_MAX = 1000
QUEUES_PER_CLAIM_MAX = 100


class ClaimRequest(NamedTuple):
    """What a worker asks for: one task by id, or up to `max_tasks` from its queues.

    `free` is what it has to give to tasks that name resources, of its whole `capacity`; a `book` is
    where that is counted instead. With neither, everything fits. With `start`, the worker says that
    it runs at once what it is given and what needs no building: the claim records that start too.
    """

    worker_id: str
    queues: tuple[str, ...] = ()
    max_tasks: int = 1
    task_id: TaskId | None = None
    idempotency_key: str | None = None
    free: Capacity | None = None
    capacity: Capacity | None = None
    book: str | None = None
    start: bool = False

    @property
    def digest(self) -> bytes:
        """Tell this request from a different one under the same key.

        Whether it starts is no part of it: a repeat is told what the first has recorded.
        """
        text = repr((self.queues, self.max_tasks, self.task_id))
        return hashlib.sha256(text.encode()).digest()

    @property
    def asked(self) -> Asked:
        """Tell what decides its share."""
        return Asked(self.max_tasks, self.free, self.capacity or self.free)

    @property
    def is_bounded(self) -> bool:
        """Whether it is given only what fits."""
        return self.free is not None or self.book is not None


def check_request(request: ClaimRequest) -> Refused | None:
    """Find what is wrong with a request, without raising: the others in its batch go on."""
    try:
        check_worker_id(request.worker_id)
        if request.idempotency_key is not None:
            _check_name("idempotency_key", request.idempotency_key)
        _check_amounts("free", request.free)
        _check_amounts("capacity", request.capacity)
        if request.book is not None:
            check_worker_id(request.book, "book")
            if request.free is not None:
                raise Invalid("free", "goes without book; give one of the two")
        if request.task_id is not None:
            check_task_id(request.task_id)
            if request.queues:
                raise Invalid("queues", "goes without task_id; give one of the two")
            return None
        if not request.queues:
            raise Invalid("queues", "is empty; name a queue, or give a task_id")
        if len(request.queues) > QUEUES_PER_CLAIM_MAX:
            raise Invalid("queues", f"names more than {QUEUES_PER_CLAIM_MAX} queues")
        if len(set(request.queues)) != len(request.queues):
            raise Invalid("queues", "names a queue twice")
        for queue in request.queues:
            _check_name("queues", queue)
        if not 1 <= request.max_tasks <= TASKS_PER_CLAIM_MAX:
            raise Invalid("max_tasks", f"is not from 1 to {TASKS_PER_CLAIM_MAX}")
    except Refused as refused:
        return refused
    return None


def _check_amounts(field: str, amounts: Capacity | None) -> None:
    for name in () if amounts is None else ("cpu", "memory", "disk"):
        if not 0 <= getattr(amounts, name) < 1 << 62:
            raise Invalid(f"{field}.{name}", "is out of range; use 0 or more")


def _check_name(field: str, name: str) -> None:
    if not name:
        raise Invalid(field, "is empty; give it a name")
    check_text(field, name, 256)
