"""Limits of use on the wire: what they say, what is held of them, and what waits for them."""

from typing import Annotated
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Meta

from holdfast.wire.requests import AttemptNumber, PageSize, Request, TaskIdText

LIST_PATH = "/api/limits"
TAKE_PATH = "/internal/limit-take"
LimitText = Annotated[
    str, Meta(extra_json_schema={"pattern": r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$"})
]
ScopeText = Annotated[
    str, Meta(extra_json_schema={"enum": ["queue", "type", "owner", "key", "name"]})
]
KindText = Annotated[str, Meta(extra_json_schema={"enum": ["concurrency", "bucket", "window"]})]


class LimitRequest(Request, frozen=True):
    """The whole limit: `most` slots at once, or so many starts in a period of seconds.

    There is a bucket of it for each queue, type, owner or key, or `only_for` one of them; of scope
    name there is one, for code that asks by the limit's name. `burst` is what a token bucket holds.
    """

    scope: ScopeText
    most: float
    kind: KindText = "concurrency"
    period: float | None = None
    burst: float | None = None
    only_for: str | None = None
    in_queue: str | None = None
    in_type: str | None = None


class LimitListQuery(Request, frozen=True):
    """Which limits to list."""

    page_size: PageSize = 100
    page_token: str | None = None


class LimitQuery(Request, frozen=True):
    """Which buckets of a limit to show: all by their values, or the one of a value."""

    value: str | None = None
    page_size: PageSize = 100
    page_token: str | None = None


class LimitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how it stands. `buckets` and `gated` are counted so far, to some thousands.

    Attempts hold `held` slots, in `buckets_held` of its buckets; `surplus` of them are more than it
    allows, since it was lowered. `gated` tasks wait for it.
    """

    name: str
    scope: str
    kind: str
    most: float
    period: float | None = None
    burst: float | None = None
    only_for: str | None = None
    in_queue: str | None = None
    in_type: str | None = None
    updated_at_ms: int
    updated_by: str
    buckets: int = 0
    buckets_held: int = 0
    held: int = 0
    surplus: int = 0
    gated: int = 0


class LimitPage(msgspec.Struct, frozen=True):
    """Some limits, by name."""

    limits: list[LimitStatus]
    next_page_token: str | None = None


class LimitHolder(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that holds slots; it may have ended, while its process still lives."""

    job_id: str
    task_id: str
    attempt_id: int
    worker_id: str
    since_ms: int
    slots: int


class LimitBucket(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket of a limit: of one queue, type, owner or key.

    `in_use` are slots that are held, or what was started within the period of a window; `free` is
    what is left. Where too little is left for the next, `next_at_ms` is when there is enough, if
    that can be known. `gated` tasks wait for it; some holders are named, the oldest first.
    """

    value: str
    in_use: float
    free: float
    gated: int = 0
    next_at_ms: int | None = None
    holders: list[LimitHolder] = []


class LimitDetail(msgspec.Struct, frozen=True):
    """A limit and some of its buckets, by value."""

    limit: LimitStatus
    buckets: list[LimitBucket]
    next_page_token: str | None = None


class LimitChange(msgspec.Struct, frozen=True):
    """A limit as it is now, whether that is new, and what people should know about it."""

    limit: LimitStatus
    changed: bool
    note: str | None = None


class LimitTakeRequest(Request, frozen=True):
    """A running attempt asks for its turn at a rate, unless that comes later than `patience`."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    name: LimitText
    count: float = 1.0
    patience: float = 60.0


class LimitTurn(msgspec.Struct, frozen=True):
    """In how many seconds the turn comes; null for never. Not granted, nothing was taken."""

    granted: bool
    wait_seconds: float | None


def limit_path(name: str) -> str:
    """Write the address of a limit."""
    return f"{LIST_PATH}/{quote(name, safe='@')}"
