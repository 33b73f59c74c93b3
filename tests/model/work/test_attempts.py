"""A lease under a lock: whose it is, and how its end was asked for."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.work.attempts import LockedLease, LockedTask
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def a_lease(**changes: Any) -> LockedLease:
    return LockedLease(
        job_id=1,
        task_index=0,
        attempt=0,
        lease_token=uuid4(),
        worker_id="w1",
        ending=False,
        cancelled=False,
        cancel_reason=None,
        expires_at=NOW,
        run_deadline_at=None,
        cancel_deadline_at=None,
        job_cancel_mode=None,
        job_is_live=True,
        job_cancel_reason=None,
    )._replace(**changes)


@pytest.mark.parametrize(
    ("cancelled", "job_cancel_mode", "cancel"),
    [
        (False, None, None),
        (True, None, "soft"),
        (False, "soft", "soft"),
        (True, "soft", "soft"),
        (False, "hard", "hard"),
        (True, "hard", "soft"),
    ],
)
def test_a_lease_knows_how_its_end_was_asked_for(
    cancelled: bool, job_cancel_mode: Any, cancel: str | None
) -> None:
    assert a_lease(cancelled=cancelled, job_cancel_mode=job_cancel_mode).cancel == cancel


def test_a_task_and_its_lease_are_named_alike() -> None:
    task_id = TaskId(1, 0)
    lease = a_lease()
    assert LockedTask(*task_id, TaskState.RUNNING, 0, 0, 0, 0).id == task_id
    assert lease.fence == Fence(task_id, 0, lease.lease_token)
