"""JSON that passes through untouched: a user's inputs and results are nobody's business here."""

import json
from pathlib import PurePath
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
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_write_object)
    # Not msgspec's own: it writes NaN as null, and a number that changes on its way is a lie.
    return json.dumps(plain, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()


def is_pydantic(kind: Any) -> bool:
    """Tell a class of pydantic models, whichever version of it there is, if any."""
    return hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_validate")


def _write_object(value: Any) -> Any:
    """Write what msgspec does not know as something that it does; raises TypeError."""
    if isinstance(value, PurePath):
        return str(value)
    if is_pydantic(type(value)):
        return value.model_dump(mode="json")
    raise TypeError(f"objects of type {type(value).__qualname__} are no JSON")
