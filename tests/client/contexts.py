"""Contexts as a worker makes them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from holdfast.client.context import Connection, Context, Identity

TOKEN = UUID("11111111-2222-3333-4444-555555555555")


def build_context(server: str, **more: Any) -> Context:
    """Make the context of attempt 3 of task 4182.7, with other fields where given."""
    fields: dict[str, Any] = {
        "server": server,
        "task_id": "4182.7",
        "attempt": 3,
        "lease_token": TOKEN,
        "job_name": "greet",
        "num_tasks": 9,
        "correlation_id": "c-1",
        "deadline": datetime(2030, 1, 1, tzinfo=UTC),
        "environment": {},
    }
    hooks = {name: more.pop(name) for name in list(more) if name not in fields}
    return Context(
        Identity(**(fields | more)),
        is_cancelled=hooks.get("is_cancelled", lambda: False),
        note_progress=hooks.get("note_progress", lambda fraction, message: None),
        connection=hooks.get("connection", _nobody),
    )


def _nobody() -> Connection:
    raise AssertionError("this context has nobody to talk to")
