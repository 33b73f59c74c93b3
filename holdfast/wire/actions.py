"""What people have done, on the wire."""

import msgspec

from holdfast.wire.events import TimeText
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import PageSize, Request

LIST_PATH = "/api/actions"


class ActionListQuery(Request, frozen=True):
    """Which actions to list, the newest first; `subject` such as job:42 or queue:mail."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    since: TimeText | None = None
    page_size: PageSize = 100
    page_token: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what, to what, and why."""

    id: int
    at_ms: int
    actor: str
    action: str
    subject_kind: str
    subject: str
    reason: str | None = None
    facts: msgspec.Raw = absent_is_null()
    # Of whoever has shown one; names may be given again.
    token_id: str | None = None


class ActionPage(msgspec.Struct, frozen=True):
    """A page of actions; without a token it is the last one."""

    actions: list[Action]
    next_page_token: str | None = None
