"""Tokens, as admins make and list them."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.wire.requests import Request

LIST_PATH = "/api/tokens"
TokenText = Annotated[
    str, Meta(extra_json_schema={"pattern": r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$"})
]


class TokenRequest(Request, frozen=True):
    """A token to make; without queues it is for all of them.

    Without owners it is for all, too, but with the role submit for the owner of its own name; then
    * stands for all.
    """

    name: TokenText
    roles: list[str]
    owners: list[str] = msgspec.field(default_factory=list)
    queues: list[str] = msgspec.field(default_factory=list)
    expires_at: datetime | None = None


class RotateRequest(Request, frozen=True):
    """For how many seconds the secret of before may still be used."""

    grace_seconds: float = 0


class TokenListQuery(Request, frozen=True):
    """Whether to list tokens that were revoked, too."""

    revoked: bool = False


class TokenStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret; `last_used_at` is a minute late at most."""

    token_id: str
    name: str
    roles: list[str]
    owners: list[str]
    queues: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    last_used_at: datetime | None = None


class TokenList(msgspec.Struct, frozen=True):
    """All tokens, by name."""

    tokens: list[TokenStatus]


class MadeToken(msgspec.Struct, frozen=True):
    """A token's id and its text; this is the only time that it is told."""

    token_id: str
    token: str
