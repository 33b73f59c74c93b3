"""Endpoints on the wire: the addresses that running tasks have published under a name."""

from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Meta

from holdfast.wire.requests import AttemptNumber, PageSize, Request, TaskIdText

REGISTER_PATH = "/internal/endpoint-register"
REMOVE_PATH = "/internal/endpoint-remove"
LIST_PATH = "/api/endpoints"

EndpointName = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
            "maxLength": 256,
            "examples": ["models/ranker"],
        }
    ),
]
Address = Annotated[
    str,
    Meta(extra_json_schema={"minLength": 1, "maxLength": 1024, "examples": ["10.0.0.7:8265"]}),
]


class EndpointRegisterRequest(Request, frozen=True):
    """A running attempt publishes an address; again is the same, or changes the address."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    name: EndpointName
    address: Address
    metadata: dict[str, Any] | None = None


class EndpointRemoveRequest(Request, frozen=True):
    """An attempt takes back what it has published."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    name: EndpointName


class EndpointListQuery(Request, frozen=True):
    """Which endpoints to list; `name` is a prefix."""

    name: str | None = None
    page_size: PageSize = 100
    page_token: str | None = None


class EndpointStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An address, and the attempt that has published it and runs."""

    name: str
    address: str
    task_id: str
    attempt: int
    registered_at_ms: int
    metadata: dict[str, Any] | None = None


class EndpointPage(msgspec.Struct, frozen=True):
    """Some endpoints, by name."""

    endpoints: list[EndpointStatus]
    next_page_token: str | None = None


def endpoint_path(name: str) -> str:
    """Say where an endpoint is looked up; a slash in its name is no step of the path."""
    return f"{LIST_PATH}/{quote(name, safe='')}"
