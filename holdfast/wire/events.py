"""Events on the wire: what user code writes, and which ones are listed, searched or followed."""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import AttemptNumber, JobIdText, PageSize, Request, TaskIdText

WRITE_PATH = "/internal/task-event"
SEARCH_PATH = "/api/events"
# Or milliseconds since 1970.
TimeText = Annotated[
    str, Meta(extra_json_schema={"examples": ["2026-11-16T12:00:00Z", "1794830400000"]})
]


class TaskEventRequest(Request, frozen=True):
    """What user code has to say while its attempt runs."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    kind: str
    payload: msgspec.Raw = absent_is_null()
    idempotency_key: str | None = None


class EventListQuery(Request, frozen=True):
    """Which events to list; `type` also takes names such as job_claimed.

    `user` are those that user code has written, `user:loaded` those of one kind.
    """

    type: str | None = None
    page_size: PageSize = 1000
    page_token: str | None = None


class EventSearchQuery(Request, frozen=True):
    """Which events of all jobs to list.

    `since` is an hour ago, or of a correlation id its beginning.
    """

    type: str | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    correlation_id: str | None = None
    page_size: PageSize = 1000
    page_token: str | None = None


class EventStreamQuery(Request, frozen=True):
    """Which events to follow."""

    job_id: JobIdText | None = None
    type: str | None = None
    after: str | None = None


class ChangeStreamQuery(Request, frozen=True):
    """After which message to go on."""

    after: str | None = None
