"""Pages of lists: how large one may be, and the token that leads to the next one."""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import msgspec

from holdfast.errors import Invalid
from holdfast.model.work.ids import INDEX_MAX, JOB_ID_MAX

PAGE_SIZE_MAX = 1000
JobId = Annotated[int, msgspec.Meta(ge=0, le=JOB_ID_MAX)]
Index = Annotated[int, msgspec.Meta(ge=-1, le=INDEX_MAX)]
Microseconds = Annotated[int, msgspec.Meta(ge=0, le=10**17)]
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
Text = Annotated[str, msgspec.Meta(max_length=256, pattern=r"^[^\x00]*$")]


def to_microseconds(at: datetime) -> int:
    """Write a moment as a token has it: exactly, and since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Read a moment as a token has it."""
    return _EPOCH + microseconds * _MICROSECOND


class PageToken(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page of a list begins: right after this."""


class JobToken(PageToken, frozen=True):
    """A job."""

    job_id: JobId


class IndexToken(PageToken, frozen=True):
    """A task of a job, or an attempt of a task."""

    index: Index


class ResultToken(IndexToken, frozen=True):
    """A task of a job, and of each job that continues it the last that was shown in its stead."""

    continued: Annotated[list[Index], msgspec.Meta(max_length=1000)] = []


class TaskToken(PageToken, frozen=True):
    """A task of any job."""

    job_id: JobId
    task_index: Index


class LetterToken(PageToken, frozen=True):
    """A dead letter among the newest, by its time since 1970."""

    microseconds: Microseconds
    job_id: JobId
    task_index: Index


class AttemptToken(PageToken, frozen=True):
    """An attempt of a task of a job."""

    task_index: Index
    attempt: Index


class EndedToken(PageToken, frozen=True):
    """An attempt that has ended, by when it did, since 1970."""

    microseconds: Microseconds
    job_id: JobId
    task_index: Index
    attempt: Index


class StretchToken(PageToken, frozen=True):
    """A stretch of output among that of its job, by the time it was stored, since 1970."""

    microseconds: Microseconds
    task_index: Index
    attempt: Index
    start_offset: JobId


class LineToken(StretchToken, frozen=True):
    """A line of output, by the stretch in which it begins."""

    line_offset: JobId


class EventToken(PageToken, frozen=True):
    """An event, by its time since 1970 and its id."""

    microseconds: Microseconds
    id: JobId


class ActionToken(PageToken, frozen=True):
    """Something that somebody did."""

    action_id: JobId


class WorkerToken(PageToken, frozen=True):
    """A worker; the living stand first."""

    illness: Index
    worker_id: Text


AnyToken = TypeVar("AnyToken", bound=PageToken)


def check_page_size(page_size: int) -> int:
    """Refuse a page that is empty or larger than one may be."""
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        raise Invalid("page_size", f"is {page_size}; use 1 to {PAGE_SIZE_MAX}")
    return page_size


def write_token(token: PageToken | None) -> str | None:
    """Write down where the next page begins; what it says is nobody's business but ours."""
    if token is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def read_token(text: str | None, shape: type[AnyToken]) -> AnyToken | None:
    """Read where a page begins; None is the beginning of the list."""
    if text is None:
        return None
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(content, type=shape)
    except (ValueError, binascii.Error) as error:
        raise Invalid(
            "page_token", "is not from this list; give next_page_token of the last page as it came"
        ) from error
