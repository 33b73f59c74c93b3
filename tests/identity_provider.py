"""A small identity provider on loopback: real keys, a real code flow, one person to log in as."""

import asyncio
import hashlib
import json
import secrets
import socket
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, AUDIENCE = "dashboard", "holdfast"
Message = dict[str, Any]


class TestProvider:
    """Issues ID tokens to whoever comes with a code, and any JWT that a test wants to have."""

    __test__ = False

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.person: dict[str, Any] = {"sub": "ann", "roles": ["people"]}
        self.asked: list[str] = []
        self.overrides: dict[str, Any] = {}
        self._codes: dict[str, dict[str, str]] = {}
        self.keys: list[RSAKey] = []
        self.rotate()

    def rotate(self) -> None:
        """Sign by a new key from here on, and tell nobody of the old one any more."""
        parameters: Any = {"kid": secrets.token_hex(4), "use": "sig"}
        self.keys = [RSAKey.generate_key(2048, parameters, auto_kid=False)]

    def sign(self, *, key: Any = None, head: dict[str, Any] | None = None, **claims: Any) -> str:
        """Sign a JWT for the API, some of its claims changed; None leaves one out."""
        now = int(time.time())
        told = {"iss": self.issuer, "aud": AUDIENCE, "iat": now, "exp": now + 600, **self.person}
        told = {name: value for name, value in (told | claims).items() if value is not None}
        named = {"alg": "RS256", "kid": self.keys[0].kid, **(head or {})}
        algorithms = [named["alg"]]
        return jwt.encode(named, told, key or self.keys[0], algorithms=algorithms)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, as ASGI has it."""
        path = scope["path"]
        self.asked.append(path)
        query = _first(parse_qs(scope["query_string"].decode()))
        if path == "/.well-known/openid-configuration":
            await _answer(send, self._describe())
        elif path == "/keys":
            await _answer(send, {"keys": [key.as_dict(private=False) for key in self.keys]})
        elif path == "/authorize":
            await self._ask(query, send)
        elif path == "/token":
            form = _first(parse_qs((await receive())["body"].decode()))
            status, told = self._exchange(form)
            await _answer(send, told, status)
        else:
            await _answer(send, {"error": "not_found"}, 404)

    def _describe(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        } | self.overrides

    async def _ask(self, query: dict[str, str], send: Any) -> None:
        """Show a page with a link that says yes; as a real one, after whatever it asks for."""
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256"), query
        code = secrets.token_hex(16)
        self._codes[code] = query
        back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        head = '<title>Provider</title><link rel="icon" href="data:,">'
        text = f'{head}<a href="{escape(back)}">Log in as {self.person["sub"]}</a>'
        await _answer(send, text.encode(), kind=b"text/html")

    def _exchange(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        begun = self._codes.pop(form.get("code", ""), None)
        if begun is None:
            return 400, {"error": "invalid_grant"}
        challenge = hashlib.sha256(form["code_verifier"].encode()).digest()
        same = ("client_id", "redirect_uri")
        if any(form[name] != begun[name] for name in same) or (
            urlsafe_b64encode(challenge).rstrip(b"=").decode() != begun["code_challenge"]
        ):
            return 400, {"error": "invalid_grant"}
        text = self.sign(aud=CLIENT_ID, nonce=begun["nonce"])
        return 200, {"id_token": text, "access_token": "none", "token_type": "Bearer"}


@contextmanager
def provider_on_loopback(port: int = 0) -> Iterator[TestProvider]:
    """Run an identity provider for the time of a block, in a thread of its own."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        provider = TestProvider(listening.getsockname()[1])
        with serving(provider, listening):
            yield provider


@contextmanager
def serving(provider: TestProvider, listening: socket.socket) -> Iterator[None]:
    """Serve for the time of a block."""
    config = uvicorn.Config(provider, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def free_port() -> int:
    """Choose a port at which nobody answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _first(values: dict[str, list[str]]) -> dict[str, str]:
    return {name: value[0] for name, value in values.items()}


async def _answer(
    send: Any, content: Any, status: int = 200, *, kind: bytes = b"application/json"
) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
