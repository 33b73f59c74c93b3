"""What a compensation is called with."""

import base64
from typing import Any

import cloudpickle
import msgspec
import pytest

from holdfast.client.undo import Undo, read_undo
from holdfast.model.work.undo import UndoRecord


def pack(value: Any) -> str:
    """Pickle a value as the client does."""
    return base64.b64encode(cloudpickle.dumps(value)).decode()


def read(**fields: Any) -> Undo:
    """Read a record with these fields."""
    content = msgspec.json.encode({"job_id": "1", "state": "SUCCEEDED"} | fields)
    return read_undo(msgspec.json.decode(content, type=UndoRecord))


def test_a_record_is_read_as_it_was_written() -> None:
    undo = read(task_id="1.0", input={"a": 1}, args=[2], kwargs={"b": 3}, result=[4], error="e")
    assert undo == Undo(
        job_id="1", task_id="1.0", state="SUCCEEDED", input={"a": 1}, args=[2], kwargs={"b": 3},
        result=[4], error="e",
    )  # fmt: skip


def test_what_was_pickled_is_unpickled() -> None:
    packed = pack((print, ({1},), {"k": {2}}))
    undo = read(is_pickled=True, pickle=packed, input=pack({3}), result=pack({4}))
    assert (undo.args, undo.kwargs, undo.input, undo.result) == ([{1}], {"k": {2}}, {3}, {4})


@pytest.mark.parametrize(("result", "told"), [(None, None), ([pack({1}), None], [{1}, None])])
def test_nothing_is_nothing_and_replicas_have_a_list(result: Any, told: Any) -> None:
    undo = read(is_pickled=True, result=result, truncated=True)
    assert (undo.result, undo.args, undo.truncated) == (told, [], True)
