"""Events on the wire: unknown fields are refused, what is left out is not sent."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest

from holdfast.wire import events
from holdfast.wire.events import EventSearchQuery, TaskEventRequest
from holdfast.wire.requests import Request

SHAPES = [
    shape
    for shape in vars(events).values()
    if isinstance(shape, type) and issubclass(shape, Request) and shape is not Request
]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.__name__ for shape in SHAPES])
def test_unknown_fields_are_refused(shape: Any) -> None:
    assert shape.__struct_config__.forbid_unknown_fields
    assert shape.__struct_config__.frozen


def test_what_is_left_out_is_not_sent() -> None:
    assert msgspec.json.encode(EventSearchQuery(type="failed")) == b'{"type":"failed"}'


def test_an_event_without_a_payload_has_the_payload_null() -> None:
    text = {"task_id": "1.0", "attempt": 0, "lease_token": str(uuid4()), "kind": "loaded"}
    read = msgspec.json.decode(msgspec.json.encode(text), type=TaskEventRequest)
    assert bytes(read.payload) == b"null"
