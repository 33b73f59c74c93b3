"""Turn a decoder's complaint into an error that names the field."""

import re

import msgspec

from holdfast.errors import Invalid

_NAMED_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `([^`]*)`")
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
