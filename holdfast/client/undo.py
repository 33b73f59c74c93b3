"""What a compensation is called with: the call that is to be undone, and what came of it."""

from typing import Any

import msgspec

from holdfast.client.codec import PayloadCodec, decode_value
from holdfast.client.pickles import unpickle
from holdfast.model.work.undo import UndoRecord


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a job that is to be undone, or a whole job of replicas.

    `state` is how it ended, such as FAILED or SUCCEEDED; what ended otherwise than SUCCEEDED may
    have done all, some or none of its work.
    """

    job_id: str
    # None for a job of replicas: they belong together, and are undone together.
    task_id: str | None = None
    state: str = "FAILED"
    # The task's own input, and the arguments that all tasks of the job were given.
    input: Any = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    # What it returned; of several replicas, a list.
    result: Any = None
    # What it committed to datasets.
    outputs: list[Any] = []
    error: str | None = None
    # Arguments, outputs or the result are missing: they are too large, gone, or cannot be told.
    truncated: bool = False


def read_undo(record: UndoRecord, codec: PayloadCodec | None = None) -> Undo:
    """Read a record as user code wants it; what was pickled is unpickled, in the worker alone."""
    value = decode_value(codec, msgspec.json.decode(record.input))
    result = _decode_each(codec, msgspec.json.decode(record.result))
    args, kwargs = record.args, record.kwargs
    if record.is_pickled:
        value, result = _unpack(value), _unpack(result)
        if record.pickle is not None:
            _, args, kwargs = _unpack(record.pickle)
    return Undo(
        job_id=record.job_id,
        task_id=record.task_id,
        state=record.state,
        input=value,
        args=list(args),
        kwargs=dict(kwargs),
        result=result,
        outputs=record.outputs,
        error=record.error,
        truncated=record.truncated,
    )


def _decode_each(codec: PayloadCodec | None, result: Any) -> Any:
    """Decode a result; of several replicas, each."""
    if isinstance(result, list):
        return [decode_value(codec, item) for item in result]
    return decode_value(codec, result)


def _unpack(packed: Any) -> Any:
    """Unpickle a text; of several replicas, each; nothing was returned where there is none."""
    if packed is None:
        return None
    if isinstance(packed, list):
        return [_unpack(item) for item in packed]
    return unpickle(packed)
