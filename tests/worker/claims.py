"""Attempts without a server behind them, for what needs none."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.answers import ClaimedJob, ClaimedTask
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.processes.clock import boot_clock


def a_job(**fields: Any) -> ClaimedJob:
    """Make up what a claim says of its job."""
    known: dict[str, Any] = {
        "job_id": "7",
        "name": "sample",
        "type": "sample",
        "entrypoint": Entrypoint(function="a:b"),
        "num_tasks": 1,
        "lease": 30.0,
        "grace": 30.0,
        "correlation_id": "c",
    }
    return ClaimedJob(**known | fields)


def a_claim(remaining: float = 30.0, preemption_count: int = 0, given: Any = None) -> ClaimedTask:
    """Make up a claim of the task 7.0."""
    return ClaimedTask(
        "7.0",
        0,
        uuid4(),
        datetime.now(UTC),
        int(remaining * 1000),
        msgspec.Raw(b"{}"),
        0,
        preemption_count,
        msgspec.Raw(msgspec.json.encode(given)),
    )


def an_attempt(*, claim: ClaimedTask | None = None, sent_at: float = 0.0, **job: Any) -> Attempt:
    """Make up an attempt that was claimed just now."""
    return Attempt(claim or a_claim(), a_job(**job), sent_at or boot_clock())
