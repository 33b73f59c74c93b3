"""JSON that passes through untouched: a user's inputs and results are nobody's business here."""

import json
from typing import Any

import msgspec


def null() -> msgspec.Raw:
    """Make the JSON text null."""
    return msgspec.Raw(b"null")


def absent_is_null() -> Any:
    """Declare a field that is the JSON text null when it is left out."""
    return msgspec.field(default_factory=null)


def raw(text: str | None) -> msgspec.Raw:
    """Take a stored JSON text; none is null."""
    return null() if text is None else msgspec.Raw(text.encode())


def encode_json(value: Any) -> bytes:
    """Write a value as JSON; what JSON has no form for raises TypeError or ValueError."""
    plain = msgspec.to_builtins(value, str_keys=True)
    # Not msgspec's own: it writes NaN as null, and a number that changes on its way is a lie.
    return json.dumps(plain, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()
