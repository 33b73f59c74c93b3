"""What a compensation is given: one record per task, or one for a job of replicas."""

from typing import Any

import msgspec

_NULL = msgspec.Raw(b"null")


class UndoRecord(msgspec.Struct, frozen=True):
    """The original call and what came of it; `input` and `result` are JSON as they were stored.

    The call is not stored with each task that undoes it: `args`, `kwargs` and `pickle` are added by
    the worker. Of a pickled call `input` and `result` are pickled too, and `pickle` holds it.
    """

    job_id: str
    state: str
    # Null for a job of replicas: they belong together, and are undone together.
    task_id: str | None = None
    input: msgspec.Raw = _NULL
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    result: msgspec.Raw = _NULL
    outputs: list[Any] = []
    error: str | None = None
    is_pickled: bool = False
    pickle: str | None = None
    # Something of the above is missing: it is too large, is gone, or cannot be written as JSON.
    truncated: bool = False
