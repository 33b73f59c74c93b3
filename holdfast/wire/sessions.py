"""Sessions of browsers: who is logged in, and how one logs in and out."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.wire.requests import Request

PATH = "/api/session"
OIDC_PATH = f"{PATH}/oidc"
# What a browser hands in comes from an identity provider, or from this server: it is not long.
Handed = Annotated[str, Meta(max_length=4096)]


class OidcReturn(Request, frozen=True):
    """What a browser came back with from the identity provider, and what it had begun with."""

    code: Handed
    nonce: Handed
    verifier: Handed
    redirect_uri: Handed


class LoginRequest(Request, frozen=True):
    """A token, or what an identity provider gave; the cookie is for `path`, the dashboard's."""

    token: Handed | None = None
    oidc: OidcReturn | None = None
    path: str = "/"


class LogoutQuery(Request, frozen=True):
    """Where the dashboard is, for the cookie that is dropped."""

    path: str = "/"


class OidcRequest(Request, frozen=True):
    """The page of the dashboard to which the identity provider leads back."""

    redirect_uri: Handed


class OidcStart(msgspec.Struct, frozen=True):
    """Where to log in, and what the browser keeps until it comes back."""

    location: str
    state: str
    nonce: str
    verifier: str


class SessionCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever calls: his roles, with those they imply; without owners or queues, he reaches all."""

    name: str
    roles: list[str]
    owners: list[str]
    queues: list[str]
    ends_at: datetime | None = None


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this server asks who calls, how one logs in, and who calls now, if he is known."""

    requires_tokens: bool
    has_oidc: bool
    caller: SessionCaller | None


class OpenedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Who has logged in, and what his browser shows beside the cookie; this is told only here."""

    csrf: str
    caller: SessionCaller
