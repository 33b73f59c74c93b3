"""What a decoder complains of: told with the field's name, or overlooked where a reader may."""

import re
from typing import Any, TypeVar

import msgspec

from holdfast.errors import Invalid

Shape = TypeVar("Shape")

_NAMED_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$([^`]*)`)?$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
UNKNOWN_MAX = 1000
_FIELD_PATH = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*?)(?:\[\.\.\.\])?`$")


def as_invalid(error: msgspec.ValidationError, whole: str) -> Invalid:
    """Name the field that a decoder stumbled over; `whole` if it was none in particular."""
    text = str(error)
    path = _FIELD_PATH.search(text)
    name = _NAMED_FIELD.match(text)
    parts = [match[1] for match in (path, name) if match and match[1]]
    problem = text[: path.start()] if path else text
    field = ".".join(parts)
    return Invalid(f"{whole}{field}" if field.startswith("[") else field or whole, problem)


def read_tolerantly(text: bytes | str, shape: type[Shape]) -> Shape:
    """Decode what another version of Holdfast has written: fields it knows and we do not are left.

    Requests are not read like this: there an unknown field is a mistake of the caller's.
    """
    value: Any = None
    for _ in range(UNKNOWN_MAX):
        try:
            return msgspec.json.decode(text, type=shape)
        except msgspec.ValidationError as error:
            found = _UNKNOWN.match(str(error))
            if found is None:
                raise
            value = msgspec.json.decode(text) if value is None else value
            holder = value
            for name, index in _STEP.findall(found[2] or ""):
                holder = holder[int(index)] if index else holder[name]
            del holder[found[1]]
            text = msgspec.json.encode(value)
    raise msgspec.ValidationError(f"more than {UNKNOWN_MAX} unknown fields")
