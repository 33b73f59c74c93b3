"""Holdfast runs work that has to finish: `import holdfast as hf`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import fenced
    from holdfast.client.client import Client
    from holdfast.client.context import Context
    from holdfast.client.graph import Graph, graph
    from holdfast.client.job import Job
    from holdfast.client.task import Dependency, TaskFunction, task
    from holdfast.client.undo import Undo
    from holdfast.errors import (
        DependencyUnavailable,
        HoldfastError,
        IllegalMove,
        Invalid,
        KeyReused,
        NotAllowed,
        NotFound,
        NotUnique,
        PermanentError,
        Refused,
        RetryAfter,
        SignalTimedOut,
        TaskFailed,
        TooLarge,
        TransientError,
        Unauthenticated,
        Unavailable,
        ValidationError,
    )
    from holdfast.errors import LeaseConflict as LeaseConflictError
    from holdfast.model.submitting.order import Output
    from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits
    from holdfast.model.submitting.schedules import Schedule
    from holdfast.model.submitting.spec import Backoff, Entrypoint, KeyOfInput
    from holdfast.model.submitting.unique import Unique
    from holdfast.model.workers.resources import Constraint, Coscheduling, Resources
    from holdfast.wire.policies import PolicyRequest
    from holdfast.wire.requests import DeadLetterFilter, JobRequest

# Imported when they are first asked for: the command line and the server need few of them.
_HOMES = {
    "Backoff": "holdfast.model.submitting.spec",
    "Client": "holdfast.client.client",
    "Constraint": "holdfast.model.workers.resources",
    "Context": "holdfast.client.context",
    "Coscheduling": "holdfast.model.workers.resources",
    "DeadLetterFilter": "holdfast.wire.requests",
    "Dependency": "holdfast.client.task",
    "Entrypoint": "holdfast.model.submitting.spec",
    "Graph": "holdfast.client.graph",
    "Job": "holdfast.client.job",
    "JobRequest": "holdfast.wire.requests",
    "KeyOfInput": "holdfast.model.submitting.spec",
    "Output": "holdfast.model.submitting.order",
    "PolicyDefaults": "holdfast.model.submitting.policies",
    "PolicyLimits": "holdfast.model.submitting.policies",
    "PolicyRequest": "holdfast.wire.policies",
    "Resources": "holdfast.model.workers.resources",
    "Schedule": "holdfast.model.submitting.schedules",
    "TaskFunction": "holdfast.client.task",
    "Undo": "holdfast.client.undo",
    "Unique": "holdfast.model.submitting.unique",
    "graph": "holdfast.client.graph",
    "task": "holdfast.client.task",
}
_MODULES = {"fenced": "holdfast.fenced", "testing": "holdfast.testing"}

__all__ = [
    "Backoff",
    "Client",
    "Constraint",
    "Context",
    "Coscheduling",
    "DeadLetterFilter",
    "Dependency",
    "DependencyUnavailable",
    "Entrypoint",
    "Graph",
    "HoldfastError",
    "IllegalMove",
    "Invalid",
    "Job",
    "JobRequest",
    "KeyOfInput",
    "KeyReused",
    "LeaseConflictError",
    "NotAllowed",
    "NotFound",
    "NotUnique",
    "Output",
    "PermanentError",
    "PolicyDefaults",
    "PolicyLimits",
    "PolicyRequest",
    "Refused",
    "Resources",
    "RetryAfter",
    "Schedule",
    "SignalTimedOut",
    "TaskFailed",
    "TaskFunction",
    "TooLarge",
    "TransientError",
    "Unauthenticated",
    "Unavailable",
    "Undo",
    "Unique",
    "ValidationError",
    "fenced",
    "graph",
    "task",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    home = importlib.import_module(_HOMES.get(name, "holdfast.errors"))
    found = getattr(home, name.replace("LeaseConflictError", "LeaseConflict"))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
