"""Holdfast runs work that has to finish: `import holdfast as hf`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import fenced
    from holdfast.client.client import Client
    from holdfast.client.context import Context
    from holdfast.client.job import Job
    from holdfast.client.task import TaskFunction, task
    from holdfast.errors import (
        DependencyUnavailable,
        HoldfastError,
        IllegalMove,
        Invalid,
        KeyReused,
        NotFound,
        PermanentError,
        Refused,
        TaskFailed,
        TooLarge,
        TransientError,
        Unavailable,
        ValidationError,
    )
    from holdfast.errors import LeaseConflict as LeaseConflictError
    from holdfast.model.spec import Backoff

# Imported when they are first asked for: the command line and the server need few of them.
_HOMES = {
    "Backoff": "holdfast.model.spec",
    "Client": "holdfast.client.client",
    "Context": "holdfast.client.context",
    "Job": "holdfast.client.job",
    "TaskFunction": "holdfast.client.task",
    "task": "holdfast.client.task",
}
_MODULES = {"fenced": "holdfast.fenced", "testing": "holdfast.testing"}

__all__ = [
    "Backoff",
    "Client",
    "Context",
    "DependencyUnavailable",
    "HoldfastError",
    "IllegalMove",
    "Invalid",
    "Job",
    "KeyReused",
    "LeaseConflictError",
    "NotFound",
    "PermanentError",
    "Refused",
    "TaskFailed",
    "TaskFunction",
    "TooLarge",
    "TransientError",
    "Unavailable",
    "ValidationError",
    "fenced",
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
