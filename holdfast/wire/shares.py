"""Shares on the wire: by what a queue is shared, who waits in it, and whose turn it is."""

from typing import Annotated, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from holdfast.wire.requests import QueueText, Request

LIST_PATH = "/api/shares"
PLACED_PATH = f"{LIST_PATH}/placed"
ShareByText = Annotated[str, Meta(extra_json_schema={"enum": ["owner", "key", "nothing"]})]


class ShareRuleRequest(Request, frozen=True):
    """The whole rule of a queue, or of placed work; whoever is not named weighs 1.

    A task in line gains a step of priority each `age_step_seconds`, `age_max` steps at most.
    """

    by: ShareByText = "owner"
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    age_step_seconds: float | None = None
    age_max: int = 0


class ShareListQuery(Request, frozen=True):
    """Which rules to list: all, or that of one queue."""

    queue: QueueText | None = None


class ShareStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One share: what it weighs, how many of its tasks run, and how many wait, as far as counted.

    The lowest `pass_value` of a priority goes next; null while nothing is in line.
    """

    value: str
    weight: float
    running: int
    waiting: int
    pass_value: float | None


class ShareRuleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of a queue, or of placed work, which has none, and the first of its shares.

    While it is `sorting`, tasks from before the rule still go first; while it is `ending`, tasks
    return from their shares to the line.
    """

    queue: str | None
    by: Literal["owner", "key", "nothing"]
    weights: dict[str, float]
    age_step_seconds: float | None
    age_max: int
    state: Literal["sorting", "shared", "ending"]
    updated_at_ms: int
    updated_by: str
    shares: list[ShareStatus]


class ShareRuleList(msgspec.Struct, frozen=True):
    """All rules: that of placed work, then those of queues by name."""

    rules: list[ShareRuleStatus]


def rule_path(queue: str | None) -> str:
    """Write the address of the rule of a queue, or that of placed work."""
    return PLACED_PATH if queue is None else f"{LIST_PATH}/queues/{quote(queue, '/:@')}"
