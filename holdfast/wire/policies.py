"""Policies on the wire: the defaults and limits of a type of job, and who changed them."""

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits
from holdfast.wire.requests import PageSize, Request

LIST_PATH = "/api/types"
TypeText = Annotated[
    str,
    Meta(extra_json_schema={"pattern": r"^[^\u0000]+$", "maxLength": 256, "examples": ["train"]}),
]


class PolicyRequest(Request, frozen=True):
    """The whole policy of a type; what is left out is not set.

    With `if_version` it is stored only if nobody has changed it since that version was read; 0
    says that there was none.
    """

    defaults: PolicyDefaults = PolicyDefaults()
    limits: PolicyLimits = PolicyLimits()
    if_version: Annotated[int, Meta(ge=0)] | None = None


class TypeListQuery(Request, frozen=True):
    """Which types to list: all that jobs have, or those with a policy alone."""

    page_size: PageSize = 100
    page_token: str | None = None


class PolicyHistoryQuery(Request, frozen=True):
    """Which changes to list."""

    page_size: PageSize = 100
    page_token: str | None = None


class TypeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts of a type that ended, or began to run, within the last hour.

    Waits are from eligible to claimed or placed, runs from start to end; null where there are none.
    """

    attempts: int
    failures: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_p50_ms: float | None
    run_p95_ms: float | None


class TypeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A type of job and its policy; version 0 and nobody's where there is none.

    `times` is null where nothing ran within the hour.
    """

    type: str
    defaults: PolicyDefaults = PolicyDefaults()
    limits: PolicyLimits = PolicyLimits()
    version: int = 0
    updated_at_ms: int | None = None
    updated_by: str | None = None
    times: TypeTimes | None = None


class TypePage(msgspec.Struct, frozen=True):
    """Some types, by name."""

    types: list[TypeStatus]
    next_page_token: str | None = None


class PolicyContent(msgspec.Struct, frozen=True):
    """What a policy said."""

    defaults: PolicyDefaults = PolicyDefaults()
    limits: PolicyLimits = PolicyLimits()


class PolicyChangeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a policy; nothing before it was set, nothing after it was taken back."""

    version: int
    type: str
    before: PolicyContent | None
    after: PolicyContent | None
    actor: str
    changed_at_ms: int


class PolicyHistory(msgspec.Struct, frozen=True):
    """Some changes, the newest first."""

    changes: list[PolicyChangeStatus]
    next_page_token: str | None = None


def type_path(type_name: str) -> str:
    """Write the address of a type."""
    return f"{LIST_PATH}/{quote(type_name, safe='')}"
