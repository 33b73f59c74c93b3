"""The routes by which browsers log in and out; everybody may ask who he is."""

import math
from datetime import UTC, datetime
from typing import Any

from holdfast.api.hosts import is_secure_page
from holdfast.api.route import Call, Reply, Route
from holdfast.errors import Invalid, NotAllowed, Unauthenticated
from holdfast.model.access.callers import ANYBODY, Caller
from holdfast.model.access.cookies import drop_cookie, is_cookie_path, write_cookie
from holdfast.model.access.roles import EVERYBODY
from holdfast.model.access.tokens import Presented
from holdfast.operations.sessions import SESSION_LASTS, SubjectLogin, end_session, open_session
from holdfast.services.callers import Callers
from holdfast.services.identity.provider import Returned
from holdfast.wire.requests import Nothing
from holdfast.wire.sessions import (
    OIDC_PATH,
    PATH,
    LoginRequest,
    LogoutQuery,
    OidcRequest,
    OidcStart,
    OpenedSession,
    SessionCaller,
    SessionStatus,
)
from holdfast.wire.status import Changed

_SET_COOKIE = b"set-cookie"
_NO_STORE = (b"cache-control", b"no-store")


async def show_session(call: Call[None, Nothing]) -> Reply:
    """Say who calls, and how one logs in if that is not known."""
    callers = call.runtime.callers
    if callers is None:
        told = SessionStatus(requires_tokens=False, has_oidc=False, caller=_describe(ANYBODY))
        return Reply(told, headers=(_NO_STORE,))
    provider = callers.provider
    try:
        caller = _describe(await callers.identify(call.headers))
    except (Unauthenticated, NotAllowed):
        caller = None
    has_oidc = provider is not None and provider.settings.client_id is not None
    told = SessionStatus(requires_tokens=True, has_oidc=has_oidc, caller=caller)
    return Reply(told, headers=(_NO_STORE,))


async def log_in(call: Call[LoginRequest, Nothing]) -> Reply:
    """Open a session, by a token or by what an identity provider gave; the answer sets a cookie."""
    callers, asked = _callers(call), call.body
    path = _check_path(asked.path)
    is_secure = is_secure_page(call.headers)
    if (asked.token is None) == (asked.oidc is None):
        raise Invalid("token", "is what one logs in by, or oidc; give one of the two")
    login = await _find_login(callers, asked)
    opened = await open_session(call.runtime.ledger.database, login)
    await callers.read()
    cookie = write_cookie(opened.secret, path=path, is_secure=is_secure, lasts=SESSION_LASTS)
    caller = await callers.identify({b"cookie": cookie.partition(";")[0].encode()})
    told = OpenedSession(csrf=opened.csrf, caller=_describe(caller))
    return Reply(told, 201, headers=((_SET_COOKIE, cookie.encode()), _NO_STORE))


async def log_out(call: Call[None, LogoutQuery]) -> Reply:
    """End the session of this browser, and have it forget the cookie."""
    callers, path = _callers(call), _check_path(call.query.path)
    session = await callers.find_session(call.headers)
    if session is not None:
        await callers.identify({**call.headers, b"authorization": b""}, "DELETE")
        await end_session(call.runtime.ledger.database, session.row.secret_hash)
        await callers.read()  # so it is over here at once, and elsewhere within seconds
    cookie = drop_cookie(path=path, is_secure=is_secure_page(call.headers))
    return Reply(Changed(session is not None), headers=((_SET_COOKIE, cookie.encode()),))


async def begin_oidc(call: Call[OidcRequest, Nothing]) -> OidcStart:
    """Begin a login at the identity provider, which leads back to a page of the dashboard."""
    callers = _callers(call)
    if callers.provider is None:
        raise Invalid("oidc", "this server knows no identity provider; log in by a token")
    origin = call.headers.get(b"origin", b"").decode("latin-1")
    if not origin or not call.body.redirect_uri.startswith(f"{origin}/"):
        raise Invalid("redirect_uri", "is no page of the site that asks; give one of the dashboard")
    begun = await callers.provider.begin(call.body.redirect_uri)
    return OidcStart(*begun)


async def _find_login(callers: Callers, asked: LoginRequest) -> Presented | SubjectLogin:
    if asked.token is not None:
        return await callers.check_login(asked.token.strip())
    assert asked.oidc is not None
    back = asked.oidc
    returned = Returned(back.code, back.nonce, back.verifier, back.redirect_uri)
    caller = await callers.check_return(returned)
    return SubjectLogin(caller.name, tuple(caller.roles), sorted(caller.owners))


def _callers(call: Call[Any, Any]) -> Callers:
    if call.runtime.callers is None:
        raise Invalid("session", "this server asks nobody who he is; there is nothing to log in to")
    return call.runtime.callers


def _check_path(path: str) -> str:
    if not is_cookie_path(path):
        raise Invalid("path", f"{path[:200]!r} is none; give that of the dashboard, such as /")
    return path


def _describe(caller: Caller) -> SessionCaller:
    ends_at = None if math.isinf(caller.ends_at) else datetime.fromtimestamp(caller.ends_at, UTC)
    return SessionCaller(
        name=caller.name,
        roles=sorted(caller.roles),
        owners=sorted(caller.owners),
        queues=sorted(caller.queues),
        ends_at=ends_at,
    )


ROUTES: tuple[Route, ...] = (
    Route("GET", PATH, show_session, SessionStatus, EVERYBODY),
    Route("POST", PATH, log_in, None, EVERYBODY, body=LoginRequest, also={201: OpenedSession}),
    Route("DELETE", PATH, log_out, Changed, EVERYBODY, query=LogoutQuery),
    Route("POST", OIDC_PATH, begin_oidc, OidcStart, EVERYBODY, body=OidcRequest),
)
