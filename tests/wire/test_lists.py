"""What lists show: every field is there, and readers ignore what is new."""

from typing import Any

import msgspec
import pytest

from holdfast.wire import lists
from holdfast.wire.lists import JobAttemptQuery, LogStretch, TaskInput
from holdfast.wire.requests import Request

SHAPES = [
    shape
    for shape in vars(lists).values()
    if isinstance(shape, type)
    and issubclass(shape, msgspec.Struct)
    and not issubclass(shape, Request)
]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.__name__ for shape in SHAPES])
def test_every_field_is_always_there_and_readers_ignore_more(shape: Any) -> None:
    assert not shape.__struct_config__.omit_defaults
    assert not shape.__struct_config__.forbid_unknown_fields
    assert shape.__doc__


def test_output_is_any_bytes_and_an_input_passes_to_the_letter() -> None:
    stretch = LogStretch(
        task_id="7.0", attempt=0, offset=0, stored_at_ms=1, content=bytes(range(256))
    )
    assert msgspec.json.decode(msgspec.json.encode(stretch), type=LogStretch) == stretch
    assert b'"input":{"n":  1.10}' in msgspec.json.encode(
        TaskInput("7.0", msgspec.Raw(b'{"n":  1.10}'))
    )
    assert b'"input":null' in msgspec.json.encode(TaskInput("7.0"))


def test_a_query_for_attempts_begins_at_the_first_task() -> None:
    assert JobAttemptQuery().task_from == 0
