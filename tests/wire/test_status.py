"""What people and programs read: absent is null, never zero, and readers ignore what is new."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.wire import status
from holdfast.wire.checkup import Health
from holdfast.wire.status import Event, JobStatus, LogChunk, TaskResult, TaskStatus

SHAPES = [
    shape
    for shape in vars(status).values()
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct)
]


def plain(answer: Any) -> Any:
    """Read an answer as a stranger would."""
    return msgspec.json.decode(msgspec.json.encode(answer))


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.__name__ for shape in SHAPES])
def test_every_field_is_always_there_and_readers_ignore_more(shape: Any) -> None:
    assert not shape.__struct_config__.omit_defaults
    assert not shape.__struct_config__.forbid_unknown_fields
    assert shape.__doc__


def test_a_task_that_has_not_started_has_nulls_and_no_zeros() -> None:
    task = TaskStatus(
        task_id="7.0",
        job_id="7",
        task_index=0,
        state="TASK_STATE_PENDING",
        submitted_at_ms=1,
        eligible_at_ms=1,
    )
    told = plain(task)
    for field in ("worker_id", "exit_code", "error", "started_at_ms", "finished_at_ms"):
        assert told[field] is None
    assert told["current_attempt_id"] == -1


def test_a_job_has_no_worker() -> None:
    assert not [name for name in JobStatus.__struct_fields__ if "worker_id" in name]
    states = [name for name in JobStatus.__struct_fields__ if name.startswith("tasks_")]
    assert len(states) == 10


def test_json_of_the_user_passes_to_the_letter() -> None:
    text = b'{"n":  1.10}'
    result = TaskResult(task_id="7.0", state="TASK_STATE_SUCCEEDED", result=msgspec.Raw(text))
    assert b'"result":' + text in msgspec.json.encode(result)
    event = Event(
        id=1,
        job_id="7",
        task_index=0,
        attempt=0,
        seq=1,
        type="started",
        ts=datetime(2026, 1, 2, tzinfo=UTC),
        correlation_id="c",
    )
    assert (plain(event)["payload"], plain(event)["ts"]) == (None, "2026-01-02T00:00:00Z")


def test_output_may_be_any_bytes() -> None:
    chunk = LogChunk("7.0", 0, 0, 2, b"\xff\x00", is_complete=True)
    assert plain(chunk)["content"] == "/wA="
    assert msgspec.json.decode(msgspec.json.encode(chunk), type=LogChunk) == chunk


def test_health_is_one_word() -> None:
    assert plain(Health("ok")) == {"status": "ok"}
