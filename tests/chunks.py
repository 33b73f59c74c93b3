"""Small chunks, so that a handful of tasks makes a large job."""

import pytest

from holdfast.operations.submitting import chunk, store, submit
from holdfast.services import writers


def shrink_chunks(monkeypatch: pytest.MonkeyPatch, tasks_max: int) -> None:
    """Let a job of more than so many tasks count as large."""
    for module in (store, chunk, submit, writers):
        monkeypatch.setattr(module, "CHUNK_TASKS_MAX", tasks_max)
