"""An identity provider by OpenID Connect: whose JWTs it signs, and how people log in there.

The browser keeps what a login begins with (state, nonce, verifier of PKCE) and comes back to a page
of the dashboard, which hands all of it in with the code. So any server can finish what another has
begun, and no cookie has to come along when another site leads back.
"""

import hashlib
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import aiohttp

from holdfast.errors import Invalid, Unauthenticated, Unavailable
from holdfast.model.access.callers import Caller
from holdfast.model.addresses import is_loopback
from holdfast.services.identity.claims import (
    OidcSettings,
    check_login,
    make_caller,
    read_claims,
    read_head,
)
from holdfast.services.identity.keys import LOOK_SECONDS_MIN, IssuerKeys
from holdfast.tls.calling import describe_refusal
from holdfast.tls.contexts import build_client_context

DISCOVERY = "/.well-known/openid-configuration"
CALL_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 1 << 20
CONNECTIONS_MAX = 8
SCOPE = "openid profile email"


class Endpoints(NamedTuple):
    """Where a provider is asked for what, by its own word."""

    authorization: str
    token: str
    keys: str


class Begun(NamedTuple):
    """A login that has begun: where to go, and what to come back with."""

    location: str
    state: str
    nonce: str
    verifier: str


class Returned(NamedTuple):
    """What a browser has come back with, and what it had begun with."""

    code: str
    nonce: str
    verifier: str
    redirect_uri: str


class IdentityProvider:
    """One issuer, called no more than it must be."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self.keys = IssuerKeys(self._fetch_keys)
        self._tls = build_client_context(settings.ca_file)
        self._session: aiohttp.ClientSession | None = None
        self._endpoints: Endpoints | None = None
        self._asked_at = -inf

    async def identify(self, text: str) -> Caller:
        """Say whose a JWT is; raises Unauthenticated, NotAllowed, Unavailable."""
        claims = await self._check(text, audience=self.settings.audience)
        return make_caller(claims, self.settings)

    async def begin(self, redirect_uri: str) -> Begun:
        """Begin a login that comes back to an address of the dashboard."""
        client_id = self._client_id()
        endpoints = await self._find_endpoints()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPE,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        sign = "&" if "?" in endpoints.authorization else "?"
        location = f"{endpoints.authorization}{sign}{urlencode(asked)}"
        return Begun(location, state, nonce, verifier)

    async def finish(self, returned: Returned) -> Caller:
        """Exchange the code of a login for what the provider says of whoever logged in."""
        client_id = self._client_id()
        endpoints = await self._find_endpoints()
        asked = {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": returned.code,
            "redirect_uri": returned.redirect_uri,
            "code_verifier": returned.verifier,
        }
        if self.settings.client_secret is not None:
            asked["client_secret"] = self.settings.client_secret
        status, told = await self._call("POST", endpoints.token, asked)
        text = told.get("id_token")
        if status != 200 or not isinstance(text, str):
            # The provider's own words may repeat what was sent; the name of its error may not.
            problem = str(told.get("error", status))[:100]
            raise Unauthenticated(f"the identity provider refused the login: {problem}")
        claims = await self._check(text, audience=client_id)
        check_login(claims, client_id=client_id, nonce=returned.nonce)
        return make_caller(claims, self.settings)

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()

    def _client_id(self) -> str:
        if self.settings.client_id is None:
            raise Invalid("oidc", "nobody logs in this way here: there is no --oidc-client-id")
        return self.settings.client_id

    async def _check(self, text: str, *, audience: str) -> dict[str, Any]:
        key = await self.keys.find(read_head(text))
        return read_claims(text, key, issuer=self.settings.issuer, audience=audience)

    async def _fetch_keys(self) -> list[Any]:
        endpoints = await self._discover()
        _, told = await self._call("GET", endpoints.keys)
        keys = told.get("keys")
        if not isinstance(keys, list):
            raise Unavailable(f"{endpoints.keys} gives no keys")
        return keys

    async def _find_endpoints(self) -> Endpoints:
        """Give what is known; strangers have a provider that is away asked at a bounded rate."""
        if self._endpoints is not None:
            return self._endpoints
        now = time.monotonic()
        if now - self._asked_at < LOOK_SECONDS_MIN:
            raise Unavailable("the identity provider did not answer a moment ago; try again later")
        self._asked_at = now
        return await self._discover()

    async def _discover(self) -> Endpoints:
        issuer = self.settings.issuer
        _, told = await self._call("GET", issuer.rstrip("/") + DISCOVERY)
        if told.get("issuer") != issuer:
            raise Unavailable(
                f"{issuer} says that it is {told.get('issuer')!r}; --oidc-issuer must be its own "
                "word, to the letter"
            )
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        addresses = [str(told.get(name, "")) for name in names]
        for name, address in zip(names, addresses, strict=True):
            if not is_safe(address):
                raise Unavailable(f"{issuer} has no {name} by https: {address[:200]!r}")
        self._endpoints = Endpoints(*addresses)
        return self._endpoints

    async def _call(
        self, method: str, address: str, form: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Call the provider; no redirects, no long answers, no long waits."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
                timeout=aiohttp.ClientTimeout(total=CALL_SECONDS_MAX),
                headers={"Accept": "application/json"},
            )
        try:
            async with self._session.request(
                method, address, data=form, allow_redirects=False, ssl=self._tls
            ) as answer:
                content, status = await _read(answer), answer.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            whose = f"the identity provider at {address}"
            problem = describe_refusal(error, whose) or f"{whose} does not answer: {error!r}"
            raise Unavailable(problem) from error
        if status >= 500 or (method == "GET" and status != 200):
            raise Unavailable(f"the identity provider at {address} answers {status}")
        try:
            told = json.loads(content)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise Unavailable(f"the identity provider at {address} answers no JSON object")
        return status, told


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > ANSWER_BYTES_MAX:
            return b""  # which is no answer
    return content


def is_safe(address: str) -> bool:
    """Tell whether what is sent to an address is seen by nobody else: https, or loopback."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")
