"""How a payload is marked that only its owners can read: by the name of the codec that made it."""

from typing import Any

CODEC_FIELD = "$holdfast_codec"


def find_codec_name(value: Any) -> str | None:
    """Tell by which codec a value was encoded; None if it is plain."""
    if type(value) is not dict:
        return None
    name = value.get(CODEC_FIELD)
    return name if isinstance(name, str) else None
