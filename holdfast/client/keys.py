"""The key by which limits count a call, where the decorator names a parameter or a field."""

import hashlib
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from holdfast.client.named_arguments import NamedArguments, follow
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import KeyOfInput
from holdfast.wire.raw import encode_json

_FIELD = "concurrency_key.input"
# Of a longer key the database takes the hash as well: one key, however it came to be known.
KEY_LENGTH_MAX = 256
Key = str | KeyOfInput


def find_key(
    key: Key | None, call: NamedArguments, inputs: Sequence[msgspec.Raw] | None
) -> Key | None:
    """Say where the key is, or what; the server knows no names of parameters.

    What the first argument or an input holds comes first, then what has a parameter's name. A path
    that means neither is left to the server, which refuses one that leads to nothing.
    """
    if not isinstance(key, KeyOfInput) or key.input is None:
        return key
    if call.entrypoint.function is None:
        problem = "reads the input, which is pickled; give the key as a text"
        raise Invalid("concurrency_key", problem)
    if inputs is None:
        return _key_of_call(key.input, call)
    return _key_of_inputs(key.input, call, inputs)


def _key_of_call(path: str, call: NamedArguments) -> Key:
    steps, awaited = path.split("."), None
    if path:
        root = ["args", "0"] if call.entrypoint.args else ["kwargs"]
        awaited = call.awaited_job([*root, *steps])
        if awaited is None and _leads(call.follow(root), steps):
            return KeyOfInput(path)
    elif call.names:
        steps = [call.names[0]]
    if call.has(steps[0]):
        return _find_value(path or steps[0], call, steps)
    if awaited is not None:
        _refuse_result(path, awaited)
    return KeyOfInput(path)


def _key_of_inputs(path: str, call: NamedArguments, inputs: Sequence[msgspec.Raw]) -> Key:
    head, *rest = steps = path.split(".")
    if not path or not call.has(head) or any(_leads(each, steps) for each in inputs):
        return KeyOfInput(path)
    if head == call.of_inputs:
        return KeyOfInput(".".join(rest))
    return _find_value(path, call, steps)


def _leads(given: Any, steps: Sequence[str]) -> bool:
    return follow(given, steps, ends_at_null=True) is not msgspec.UNSET


def _find_value(path: str, call: NamedArguments, steps: Sequence[str]) -> Key:
    """Take the key from what a parameter is given, or from its default."""
    head, *rest = steps
    place = call.place(head)
    if place is None:
        given = call.default(head)
    else:
        awaited = call.awaited_job([*place, *rest])
        if awaited is not None:
            _refuse_result(path, awaited)
        given = call.follow(place)
    value = follow({head: given}, steps, ends_at_null=True)
    if value is msgspec.UNSET:
        raise Invalid(_FIELD, f"names {path!r}, which the call does not have")
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        raise Invalid(_FIELD, f"names {path!r}, which is {kind}; name a value in it")
    return _write_key(value)


def _write_key(value: Any) -> Key:
    if value is None:
        return KeyOfInput(None)
    text = value if isinstance(value, str) else encode_json(value).decode()
    if len(text) <= KEY_LENGTH_MAX:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _refuse_result(path: str, job: str) -> NoReturn:
    problem = f"names {path!r}, which is the result of job {job} and not known yet"
    raise Invalid(_FIELD, f"{problem}; give the key as a text")
