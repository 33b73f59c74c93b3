"""What proves that a worker speaks for an attempt."""

from typing import NamedTuple
from uuid import UUID

from holdfast.errors import Invalid
from holdfast.model.work.ids import TaskId, check_index, check_task_id


class Fence(NamedTuple):
    """What a worker must present to speak for an attempt."""

    task_id: TaskId
    attempt: int
    lease_token: UUID


def check_fence(fence: Fence) -> None:
    """Refuse a fence of the wrong shape."""
    check_task_id(fence.task_id)
    check_index(fence.attempt, "attempt")
    if not isinstance(fence.lease_token, UUID):
        raise Invalid("lease_token", f"{fence.lease_token!r} is not a UUID; send the one you got")
