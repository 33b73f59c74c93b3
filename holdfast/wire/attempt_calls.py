"""What an attempt asks for in its own name, or its worker for it: its lease is in a header."""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.requests import AttemptNumber, Request, TaskIdText

# `TASK_ID ATTEMPT LEASE_TOKEN`
LEASE_HEADER = "Holdfast-Lease"
PROGRESS_PATH = "/internal/task-progress"
COMPENSATED_PATH = "/internal/compensated-call"
_RESULTS_PATH = "/internal/given-results"
_BUNDLE_PATH = "/internal/own-bundle"


class TaskProgressRequest(Request, frozen=True):
    """How far an attempt has got, from 0 to 1, and what it says about it."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    fraction: Annotated[float, Meta(ge=0, le=1)]
    message: str | None = None


class CompensatedCall(msgspec.Struct, frozen=True):
    """What the job was called with that a compensation undoes."""

    entrypoint: Entrypoint


def given_results_path(job_id: str) -> str:
    """Say where an attempt reads the results of a job that its own job names."""
    return f"{_RESULTS_PATH}/{job_id}"


def own_bundle_path(bundle: str) -> str:
    """Say where a worker fetches the bundle of an attempt."""
    return f"{_BUNDLE_PATH}/{bundle}"
