"""Functions on the wire: as workers announce them, and as everybody reads them."""

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from holdfast.model.workers.functions import AnnouncedFunction
from holdfast.wire.requests import PageSize, Request, WorkerIdText

LIST_PATH = "/api/functions"
ANNOUNCE_PATH = "/internal/functions"


FunctionText = Annotated[
    str, Meta(extra_json_schema={"pattern": r"^[^\u0000]+$", "examples": ["package.module:name"]})
]


class AnnounceRequest(Request, frozen=True):
    """A worker names the functions that it has; of several workers, the latest word counts."""

    worker_id: WorkerIdText
    functions: list[AnnouncedFunction]


class AnnounceAnswer(msgspec.Struct, frozen=True):
    """The functions whose options are new or others than before, and what was not taken."""

    changed: list[str]
    refused: dict[str, str] = {}


class FunctionListQuery(Request, frozen=True):
    """Which functions to list: all, by path."""

    page_size: PageSize = 100
    page_token: str | None = None


class FunctionStatus(AnnouncedFunction, frozen=True, kw_only=True):
    """A function, and which worker announced it last."""

    announced_by: str
    changed_at_ms: int
    last_seen_at_ms: int


class FunctionPage(msgspec.Struct, frozen=True):
    """Some functions, by path."""

    functions: list[FunctionStatus]
    next_page_token: str | None = None


def function_path(path: str) -> str:
    """Write the address of a function."""
    return f"{LIST_PATH}/{quote(path, safe='')}"
