"""Rows as readers find them, for tests that name only what matters."""

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.model.work.states import TaskState
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.tasks import TaskRow
from holdfast.store.reads.workers.workers import WorkerRow

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)
COUNTS = (
    "pending", "assigned", "building", "running", "succeeded", "failed", "killed", "worker_failed",
    "unschedulable", "dead_lettered",
)  # fmt: skip


def a_job(**fields: Any) -> JobRow:
    """Make a job of three tasks in the queue `emails`."""
    usual: dict[str, Any] = dict.fromkeys(JobRow._fields) | {
        "job_id": 4182,
        "name": "crawl",
        "type": "crawl",
        "owner": "eve",
        "queue": "emails",
        "priority": 0,
        "labels": "{}",
        "correlation_id": "c",
        "submitted_at": NOW,
        "state": TaskState.PENDING,
        "num_tasks": 3,
        "unmet": 0,
        **dict.fromkeys(COUNTS, 0),
    }
    return JobRow(**usual | fields)


def a_task(**fields: Any) -> TaskRow:
    """Make a task that has not been tried yet."""
    usual: dict[str, Any] = dict.fromkeys(TaskRow._fields) | {
        "job_id": 4182,
        "task_index": 3,
        "state": TaskState.PENDING,
        "attempt": 0,
        "failure_count": 0,
        "preemption_count": 0,
        "eligible_at": NOW,
        "submitted_at": NOW,
    }
    return TaskRow(**usual | fields)


OPEN: dict[str, Any] = {
    "state": TaskState.RUNNING,
    "attempt": 1,
    "started_at": NOW,
    "lease_attempt": 1,
    "lease_worker_id": "w2",
    "lease_expires_at": NOW + timedelta(seconds=30),
    "lease_duration": timedelta(seconds=30),
    "lease_is_ending": False,
    "last_attempt": 0,
    "last_worker_id": "w1",
    "last_started_at": NOW,
    "exit_code": 3,
    "error": "boom",
    "error_class": "TransientError",
}
CLOSED: dict[str, Any] = {name: None for name in OPEN if name.startswith("lease")}


def a_worker(**fields: Any) -> WorkerRow:
    """Make a healthy worker that holds two leases."""
    usual: dict[str, Any] = dict.fromkeys(WorkerRow._fields) | {
        "worker_id": "w1",
        "name": "n",
        "host": "h",
        "queues": ["q"],
        "illness": 0,
        "registered_at": NOW,
        "is_draining": False,
        "leases": 2,
        "attributes": "{}",
        "consecutive_failures": 0,
    }
    return WorkerRow(**usual | fields)
