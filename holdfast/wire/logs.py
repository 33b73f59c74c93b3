"""Lines of a job's output on the wire: which ones are searched for, and what is found."""

import msgspec

from holdfast.wire.events import TimeText
from holdfast.wire.lists import TaskIndex
from holdfast.wire.requests import AttemptNumber, PageSize, Request


class LogLineQuery(Request, frozen=True):
    """Which lines to search the output of a job for; what is left out matches all.

    `contains` is a text as it stands in a line, `since` and `until` are when it was stored.
    """

    contains: str | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    task_index: TaskIndex | None = None
    attempt: AttemptNumber | None = None
    page_size: PageSize = 1000
    page_token: str | None = None


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an attempt's output, which begins at `offset`.

    Of a long one `text` has the first 64 KiB; bytes that are no UTF-8 are escaped there.
    """

    task_id: str
    attempt: int
    offset: int
    stored_at_ms: int
    text: str


class LogLinePage(msgspec.Struct, frozen=True):
    """Lines in the order in which they were stored; a short page may not be the last one."""

    lines: list[LogLine]
    next_page_token: str | None = None
