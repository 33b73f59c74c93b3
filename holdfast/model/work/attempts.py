"""A task and its open or ending attempt, as they stand under a lock."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import CancelMode


class LockedTask(NamedTuple):
    """A task as it stands under our lock."""

    job_id: int
    task_index: int
    state: int
    attempt: int
    failure_count: int
    preemption_count: int
    free_loss_count: int

    @property
    def id(self) -> TaskId:
        """Name the task."""
        return TaskId(self.job_id, self.task_index)


class LockedLease(NamedTuple):
    """The open or ending attempt of a task whose row we hold."""

    job_id: int
    task_index: int
    attempt: int
    lease_token: UUID
    worker_id: str
    ending: bool
    cancelled: bool
    cancel_reason: str | None
    expires_at: datetime
    run_deadline_at: datetime | None
    cancel_deadline_at: datetime | None
    job_cancel_mode: CancelMode | None
    job_is_live: bool
    job_cancel_reason: str | None
    # A claim is an acknowledgement; a placed attempt is acknowledged once its worker has named it.
    acknowledged: bool = True

    @property
    def fence(self) -> Fence:
        """Give what its holder must present."""
        return Fence(TaskId(self.job_id, self.task_index), self.attempt, self.lease_token)

    @property
    def cancel(self) -> CancelMode | None:
        """Tell how its end was asked for, by a cancel of the task or of the job."""
        return "soft" if self.cancelled or self.job_cancel_mode == "soft" else self.job_cancel_mode
