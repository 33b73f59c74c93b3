"""What callers send: unknown fields are refused, bounds are kept, and short is written short."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest

from holdfast.model.submitting.spec import JobSpec
from holdfast.wire import requests
from holdfast.wire.requests import (
    CheckpointSaveRequest,
    HeartbeatRequest,
    JobRequest,
    LeaseReport,
    LogAppendRequest,
    LogQuery,
    Progress,
    Request,
    TaskClaimRequest,
    TaskCompletion,
    UserEvent,
)

SHAPES = [
    shape
    for shape in vars(requests).values()
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct) and shape is not JobSpec
]
TOKEN = str(uuid4())
LEASE = {"task_id": "1.0", "attempt": 0, "lease_token": TOKEN}


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.__name__ for shape in SHAPES])
def test_unknown_fields_are_refused(shape: Any) -> None:
    assert shape.__struct_config__.forbid_unknown_fields
    assert shape.__struct_config__.frozen


def test_what_is_left_out_is_not_sent() -> None:
    assert msgspec.json.encode(TaskClaimRequest("w1", queues=["q"])) == (
        b'{"worker_id":"w1","queues":["q"]}'
    )
    assert msgspec.json.encode(HeartbeatRequest("w1", [])) == b'{"worker_id":"w1","leases":[]}'


BOUNDS: list[tuple[Any, str, Any, list[Any], list[Any]]] = [
    (TaskClaimRequest, "wait_ms", {"worker_id": "w"}, [0, 60_000], [-1, 60_001]),
    (TaskClaimRequest, "max_tasks", {"worker_id": "w"}, [1, 1000], [0, 1001]),
    (HeartbeatRequest, "wait_ms", {"worker_id": "w"}, [0, 60_000], [-1, 60_001]),
    (Progress, "fraction", {}, [0, 0.5, 1], [-0.01, 1.01]),
    (LeaseReport, "attempt", LEASE, [0, 2**31 - 1], [-1, 2**31]),
    (TaskCompletion, "attempt", {**LEASE, "status": "failed"}, [0], [-1]),
    (LogAppendRequest, "offset", {**LEASE, "content": ""}, [0], [-1]),
    (LogQuery, "offset", {}, [0], [-1]),
    (requests.JobListQuery, "page_size", {}, [1, 1000], [0, 1001]),
]


@pytest.mark.parametrize(
    ("shape", "field", "rest", "good", "bad"),
    BOUNDS,
    ids=[f"{b[0].__name__}.{b[1]}" for b in BOUNDS],
)
def test_bounds_are_kept(
    shape: Any, field: str, rest: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        assert getattr(msgspec.convert({**rest, field: value}, shape), field) == value
    for value in bad:
        with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field}"):
            msgspec.convert({**rest, field: value}, shape)


def test_a_result_of_null_is_not_the_absence_of_one() -> None:
    body = {**LEASE, "status": "succeeded"}
    absent = msgspec.json.decode(msgspec.json.encode(body), type=TaskCompletion)
    null = msgspec.json.decode(msgspec.json.encode({**body, "result": None}), type=TaskCompletion)
    assert absent.result is msgspec.UNSET
    assert bytes(null.result) == b"null"  # type: ignore[arg-type]
    assert b"result" not in msgspec.json.encode(absent)
    assert b'"result":null' in msgspec.json.encode(null)


def test_json_of_the_user_passes_to_the_letter() -> None:
    text = b'{"n":  1.10, "big": 12345678901234567890123}'
    event = msgspec.json.decode(b'{"kind": "k", "payload": ' + text + b"}", type=UserEvent)
    assert bytes(event.payload) == text
    assert bytes(UserEvent("k").payload) == b"null"
    lease = b'{"task_id": "1.0", "attempt": 0, "lease_token": "%s", ' % TOKEN.encode()
    saved = msgspec.json.decode(lease + b'"checkpoint": ' + text + b"}", type=CheckpointSaveRequest)
    assert bytes(saved.checkpoint) == text


def test_output_may_be_any_bytes() -> None:
    sent = LogAppendRequest("1.0", 0, uuid4(), 0, b"\xff\x00")
    again = msgspec.json.decode(msgspec.json.encode(sent), type=LogAppendRequest)
    assert again == sent
    assert b'"content":"/wA="' in msgspec.json.encode(sent)


def test_a_job_request_is_a_spec_and_its_inputs() -> None:
    fields = set(JobRequest.__struct_fields__) - set(JobSpec.__struct_fields__)
    assert fields == {"inputs", "local_name", "placed"}
    body = b'{"entrypoint": {"shell": "ls"}, "inputs": [1, null, {"a":  2}]}'
    asked = msgspec.json.decode(body, type=JobRequest)
    assert [bytes(text) for text in asked.inputs or ()] == [b"1", b"null", b'{"a":  2}']
    with pytest.raises(msgspec.ValidationError, match="unknown field `parent_job_id`"):
        msgspec.json.decode(b'{"entrypoint": {"shell": "ls"}, "parent_job_id": 7}', type=JobRequest)


def test_every_request_says_what_it_is() -> None:
    for shape in SHAPES:
        assert shape.__doc__, shape
    assert issubclass(TaskClaimRequest, Request)
