"""Pages of lists: how large one may be, and the token that leads to the next one."""

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec

from holdfast.errors import Invalid
from holdfast.model.ids import INDEX_MAX, JOB_ID_MAX

PAGE_SIZE_MAX = 1000
JobKey = tuple[Annotated[int, msgspec.Meta(ge=0, le=JOB_ID_MAX)]]
IndexKey = tuple[Annotated[int, msgspec.Meta(ge=-1, le=INDEX_MAX)]]
TaskKey = tuple[
    Annotated[int, msgspec.Meta(ge=0, le=JOB_ID_MAX)],
    Annotated[int, msgspec.Meta(ge=-1, le=INDEX_MAX)],
]
# Microseconds since 1970 and the id of an event.
MomentKey = tuple[
    Annotated[int, msgspec.Meta(ge=0, le=10**17)],
    Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)],
]
WorkerKey = tuple[
    Annotated[int, msgspec.Meta(ge=-1, le=9)],
    Annotated[str, msgspec.Meta(max_length=256)],
]
Key = TypeVar("Key")


def check_page_size(page_size: int) -> int:
    """Refuse a page that is empty or larger than one may be."""
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        raise Invalid("page_size", f"is {page_size}; use 1 to {PAGE_SIZE_MAX}")
    return page_size


def write_token(*key: int | str) -> str:
    """Write down where the next page begins; what it says is nobody's business but ours."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).rstrip(b"=").decode()


def read_token(token: str, shape: type[Key]) -> Key:
    """Read where a page begins."""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        key = msgspec.json.decode(text, type=shape)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Invalid(
            "page_token", "is not from this list; give next_page_token of the last page as it came"
        ) from error
    if any(isinstance(part, str) and "\x00" in part for part in key):  # type: ignore[attr-defined]
        raise Invalid("page_token", "is not from this list; it contains a NUL character")
    return key
