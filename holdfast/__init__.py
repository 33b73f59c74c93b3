"""Holdfast runs work that has to finish: `import holdfast as hf`."""

from holdfast.client.client import Client
from holdfast.client.context import Context
from holdfast.client.job import Job
from holdfast.client.task import TaskFunction, task
from holdfast.errors import (
    DependencyUnavailable,
    HoldfastError,
    Invalid,
    NotFound,
    PermanentError,
    Refused,
    TaskFailed,
    TransientError,
    Unavailable,
    ValidationError,
)
from holdfast.errors import LeaseConflict as LeaseConflictError
from holdfast.model.spec import Backoff

__all__ = [
    "Backoff",
    "Client",
    "Context",
    "DependencyUnavailable",
    "HoldfastError",
    "Invalid",
    "Job",
    "LeaseConflictError",
    "NotFound",
    "PermanentError",
    "Refused",
    "TaskFailed",
    "TaskFunction",
    "TransientError",
    "Unavailable",
    "ValidationError",
    "task",
]
