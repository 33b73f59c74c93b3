"""Log in by a token, or by an identity provider; a cookie alone changes nothing."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from holdfast.model.access.roles import Role
from holdfast.operations.tokens import revoke_token, rotate_token
from holdfast.services import callers as callers_module
from holdfast.services.identity.claims import OidcSettings
from holdfast.services.runtime import Options, open_runtime
from tests.api.asgi import Exchange
from tests.api.face import Face, Said
from tests.api.guarded import Guarded
from tests.identity_provider import AUDIENCE, CLIENT_ID, TestProvider, provider_on_loopback
from tests.waiting import eventually

ORIGIN = "http://127.0.0.1:7878"
HOME = {"host": "127.0.0.1:7878", "origin": ORIGIN}
SPEC = {"entrypoint": {"function": "a:b"}, "queue": "q"}


class Browser:
    """A browser that is logged in: its cookie, and what its page keeps."""

    def __init__(self, face: Face, opened: Said) -> None:
        assert opened.status == 201, opened
        self.face = face
        self.set_cookie = opened.headers["set-cookie"]
        self.cookie = {"cookie": self.set_cookie.partition(";")[0]}
        self.csrf = {"holdfast-csrf": opened.json["csrf"]}

    async def get(self, target: str) -> Said:
        """Read something."""
        return await self.face.get(target, **self.cookie)

    async def change(self, method: str, target: str, body: Any = None, **headers: str) -> Said:
        """Change something, as a page of the dashboard does."""
        shown = HOME | self.cookie | self.csrf | headers
        return await self.face.change(method, target, body, **shown)


async def log_in(guarded: Guarded, *roles: str, name: str = "ann", **scope: Any) -> Browser:
    """Make a token and log in with it."""
    text = await guarded.make(name, *roles, **scope)
    said = await guarded.face.post("/api/session", {"token": f" {text}\n"}, **HOME)
    return Browser(guarded.face, said)


async def test_a_stranger_is_not_listened_to_for_long(guarded: Guarded) -> None:
    said = await guarded.face.post("/api/session", {"token": "x" * (64 << 10)}, **HOME)
    assert (said.status, said.json["error"]["code"]) == (413, "too_large")


async def test_nobody_logs_in_where_nobody_is_asked(quiet_face: Face) -> None:
    told = (await quiet_face.get("/api/session")).json
    assert (told["requires_tokens"], told["has_oidc"]) == (False, False)
    assert told["caller"]["roles"] == sorted(Role)
    for method, path, body in (
        ("POST", "/api/session", {"token": "x"}),
        ("DELETE", "/api/session", None),
        ("POST", "/api/session/oidc", {"redirect_uri": "x"}),
    ):
        said = await quiet_face.change(method, path, body)
        assert (said.status, "set-cookie" in said.headers) == (400, False)


async def test_a_token_opens_a_session_that_may_what_the_token_may(guarded: Guarded) -> None:
    stranger = (await guarded.face.get("/api/session")).json
    assert stranger == {"requires_tokens": True, "has_oidc": False, "caller": None}
    ann = await log_in(guarded, "submit", owners=("ann",))
    assert "HttpOnly" in ann.set_cookie
    assert "SameSite=Strict" in ann.set_cookie
    told = await ann.get("/api/session")
    assert told.headers["cache-control"] == "no-store"
    caller = told.json["caller"]
    assert (caller["name"], caller["roles"]) == ("ann", ["data", "read", "submit"])
    assert (caller["owners"], caller["queues"]) == (["ann"], [])
    assert (await ann.get("/api/jobs")).status == 200
    assert (await ann.get("/api/tokens")).status == 403
    made = await ann.change("POST", "/api/jobs", SPEC, holdfast_actor="somebody else")
    assert (made.status, made.json["owner"]) == (201, "ann")


async def test_a_cookie_without_the_header_changes_nothing(guarded: Guarded) -> None:
    ann = await log_in(guarded, "admin")
    for csrf in ({}, {"holdfast-csrf": "0" * 64}, {"holdfast-csrf": ann.cookie["cookie"][-64:]}):
        headers = HOME | ann.cookie | csrf
        for method, path, body in (
            ("POST", "/api/jobs", SPEC),
            ("POST", "/api/queues/q:pause", {}),
            ("DELETE", "/api/session", None),
        ):
            said = await guarded.face.change(method, path, body, **headers)
            assert (said.status, said.error["details"]["lacks"]) == (
                403,
                "the header Holdfast-Csrf",
            )
    assert (await ann.get("/api/jobs")).json["jobs"] == []
    assert (await ann.change("POST", "/api/jobs", SPEC)).status == 201
    # It is told at the login alone: whoever has the cookie cannot ask for it.
    assert ann.csrf["holdfast-csrf"] not in repr((await ann.get("/api/session")).json)


async def test_a_token_goes_before_a_cookie(guarded: Guarded) -> None:
    ann = await log_in(guarded, "read")
    text = await guarded.make("root", "admin")
    both = ann.cookie | {"authorization": f"Bearer {text}"}
    assert (await guarded.face.get("/api/session", **both)).json["caller"]["name"] == "root"
    assert (await guarded.face.change("POST", "/api/jobs", SPEC, **both)).status == 201


async def test_a_session_ends_with_its_log_out_and_streams_with_it(guarded: Guarded) -> None:
    ann = await log_in(guarded, "read")
    stream = Exchange(guarded.face.app, "GET", "/api/changes/stream", headers=ann.cookie)
    await stream.until(lambda content: b"data:" in content)
    said = await ann.change("DELETE", "/api/session?path=/")
    assert said.json == {"changed": True}
    assert "Max-Age=0" in said.headers["set-cookie"]
    assert (await ann.get("/api/jobs")).status == 401
    assert (await ann.get("/api/session")).json["caller"] is None
    await guarded.make("root", "admin")
    await guarded.say("root", "POST", "/api/jobs", SPEC)  # so that there is a line to send
    await eventually(lambda: stream.is_over)
    assert (await ann.change("DELETE", "/api/session")).json == {"changed": False}


@pytest.mark.parametrize("way", ["revoked", "rotated"])
async def test_a_session_ends_with_the_secret_it_was_opened_by(guarded: Guarded, way: str) -> None:
    ann = await log_in(guarded, "read")
    if way == "revoked":
        await revoke_token(guarded.database, "ann", actor="root")
    else:
        await rotate_token(guarded.database, "ann", grace=timedelta(hours=1), actor="root")
        assert guarded.face.runtime.callers is not None
        await guarded.face.runtime.callers.read()
        assert (await ann.get("/api/jobs")).status == 200
        await rotate_token(guarded.database, "ann", grace=timedelta(0), actor="root")

    async def is_out() -> bool:
        return (await ann.get("/api/jobs")).status == 401

    await eventually(is_out, seconds=10)


async def test_a_session_is_known_to_other_servers_and_over_there_too(
    guarded: Guarded, database_url: str
) -> None:
    ann = await log_in(guarded, "read")
    async with open_runtime(Options(database_url, requires_tokens=True)) as other:
        there = Face(other)
        assert (await there.get("/api/jobs", **ann.cookie)).status == 200
        await ann.change("DELETE", "/api/session")

        async def is_out() -> bool:
            return (await there.get("/api/jobs", **ann.cookie)).status == 401

        await eventually(is_out, seconds=10)


async def test_failed_logins_are_bounded_and_keep_nobody_out(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers_module, "LOOK_SECONDS_MIN", 0.0)
    good = await guarded.make("ann", "read")
    assert guarded.face.runtime.callers is not None
    await guarded.face.runtime.callers.read()
    statuses = []
    for number in range(callers_module.FAILURES_MAX + 2):
        wrong = f"hf_{'0' * 12}_{number:064}"
        said = await guarded.face.post("/api/session", {"token": wrong}, **HOME)
        assert wrong not in repr(said)
        statuses.append(said.status)
    assert set(statuses[:-2]) == {401}
    assert statuses[-2:] == [429, 429]
    said = await guarded.face.post("/api/session", {"token": good}, **HOME)
    assert said.status == 201


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({}, HOME, 400),
        ({"token": "x", "oidc": dict.fromkeys(("code", "nonce", "verifier"), "")}, HOME, 400),
        ({"token": "not one"}, HOME, 401),
        ({"token": "x", "path": "/a; Domain=example"}, HOME, 400),
        ({"token": "x"}, HOME | {"origin": "https://evil.example"}, 403),
        ({"token": "x"}, HOME | {"origin": "null"}, 403),
        ({"oidc": dict.fromkeys(("code", "nonce", "verifier", "redirect_uri"), "x")}, HOME, 401),
    ],
)
async def test_a_login_that_cannot_be_is_refused(
    guarded: Guarded, body: Any, headers: dict[str, str], status: int
) -> None:
    said = await guarded.face.post("/api/session", body, **headers)
    assert (said.status, "set-cookie" in said.headers) == (status, False)


async def test_the_cookie_is_for_where_the_dashboard_is(guarded: Guarded) -> None:
    text = await guarded.make("ann", "read")
    for origin, path, begins in (
        ("https://127.0.0.1", "/", "__Host-holdfast="),
        ("https://127.0.0.1", "/ops/", "__Secure-holdfast="),
        ("http://127.0.0.1", "/ops/", "holdfast="),
    ):
        body = {"token": text, "path": path}
        headers = {"host": "127.0.0.1", "origin": origin}
        ann = Browser(guarded.face, await guarded.face.post("/api/session", body, **headers))
        assert ann.set_cookie.startswith(begins)
        assert f"; Path={path};" in ann.set_cookie
        assert ("; Secure" in ann.set_cookie) == origin.startswith("https")
        assert (await ann.get("/api/jobs")).status == 200


class WithProvider(Guarded):
    """A server that knows an identity provider, too."""

    issuer: TestProvider


@pytest.fixture
async def known(database_url: str, tmp_path: Path) -> AsyncIterator[WithProvider]:
    """A server with an identity provider on loopback."""
    with provider_on_loopback() as issuer:
        oidc = OidcSettings(
            issuer=issuer.issuer,
            audience=AUDIENCE,
            roles={"people": Role.SUBMIT, "guests": Role.READ, "chiefs": Role.ADMIN},
            client_id=CLIENT_ID,
        )
        options = Options(database_url, requires_tokens=True, oidc=oidc)
        async with open_runtime(options) as runtime:
            guarded = WithProvider(Face(runtime), runtime.ledger.database, {})
            guarded.issuer = issuer
            yield guarded


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


async def test_a_jwt_is_taken_in_a_tokens_place(known: WithProvider) -> None:
    issuer, face = known.issuer, known.face
    good = issuer.sign()
    for _ in range(2):
        made = await face.change("POST", "/api/jobs", SPEC, **bearer(good))
        assert (made.status, made.json["owner"]) == (201, "oidc:ann")
    assert (await face.get("/api/tokens", **bearer(good))).status == 403
    assert (await face.get("/api/jobs", **bearer(issuer.sign(roles=["x"])))).status == 403
    for text in (
        issuer.sign(aud="another"),
        issuer.sign(iss="https://evil.example"),
        issuer.sign(exp=1),
        issuer.sign(head={"kid": "unknown"}),
        good[:-8] + "AAAAAAAA",
    ):
        said = await face.get("/api/jobs", **bearer(text))
        assert said.status == 401, said
        assert text not in repr(said)
    # A JWT opens no session: it would outlive itself there.
    said = await face.post("/api/session", {"token": good}, **HOME)
    assert said.status == 401


async def test_somebody_of_a_provider_who_submits_is_kept_to_his_own_jobs(
    known: WithProvider,
) -> None:
    face = known.face
    ann, bob = (bearer(known.issuer.sign(sub=name)) for name in ("ann", "bob"))
    made = (await face.change("POST", "/api/jobs", SPEC, **ann)).json["job_id"]
    assert (await face.get(f"/api/jobs/{made}", **bob)).status == 404
    assert (await face.change("POST", f"/api/jobs/{made}:cancel", {}, **bob)).status == 404
    assert (await face.get(f"/api/jobs/{made}", **ann)).status == 200


async def test_what_somebody_of_a_provider_does_is_done_in_his_own_name(
    known: WithProvider,
) -> None:
    ann = bearer(known.issuer.sign(sub="ann")) | {"holdfast-actor": "somebody"}
    made = (await known.face.change("POST", "/api/jobs", SPEC, **ann)).json["job_id"]
    said = await known.face.change("POST", f"/api/jobs/{made}:cancel", {}, **ann)
    assert said.status == 200, said
    shown = (await known.face.get(f"/api/jobs/{made}", **ann)).json
    assert shown["cancelled_by"] == "oidc:ann"


async def test_a_worker_does_not_register_by_a_jwt(known: WithProvider) -> None:
    chief = bearer(known.issuer.sign(roles=["chiefs"]))
    body = {"worker_id": "w", "name": "w", "host": "h", "queues": ["q"], "secret": "s" * 32}
    said = await known.face.change("POST", "/internal/worker-register", body, **chief)
    assert (said.status, said.error["details"]["lacks"]) == (403, "a token of the role worker")
    assert (await known.face.get("/api/workers", **chief)).json["workers"] == []


async def test_wrong_tokens_keep_nobody_from_logging_in_at_his_provider(
    known: WithProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers_module, "LOOK_SECONDS_MIN", 0.0)
    for _ in range(callers_module.FAILURES_MAX):
        await known.face.post("/api/session", {"token": "wrong"}, **HOME)
    assert (await known.face.post("/api/session", {"token": "wrong"}, **HOME)).status == 429
    oidc = {"code": "x", "nonce": "n", "verifier": "v" * 43, "redirect_uri": f"{ORIGIN}/login"}
    said = await known.face.post("/api/session", {"oidc": oidc}, **HOME)
    assert said.status == 401  # the provider was asked, and knows no such code


async def test_somebody_of_a_provider_is_kept_to_his_owners(known: WithProvider) -> None:
    assert known.face.runtime.callers is not None
    provider = known.face.runtime.callers.provider
    assert provider is not None
    provider.settings = replace(provider.settings, owner_claim="teams")
    shown = bearer(known.issuer.sign(teams=["search"]))
    made = await known.face.change("POST", "/api/jobs", SPEC, **shown)
    assert (made.status, made.json["owner"]) == (201, "search")
    other = await known.face.change("POST", "/api/jobs", SPEC | {"owner": "ads"}, **shown)
    assert (other.status, other.error["details"]["lacks"]) == (403, "owner ads")


async def test_streams_of_a_jwt_end_with_it(
    known: WithProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = bearer(known.issuer.sign(roles=["guests"]))
    stream = Exchange(known.face.app, "GET", "/api/changes/stream", headers=shown)
    await stream.until(lambda content: b"data:" in content)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    assert known.face.runtime.callers is not None
    await known.face.runtime.callers.read()
    monkeypatch.undo()
    await known.make("root", "admin")
    await known.say("root", "POST", "/api/jobs", SPEC)
    await eventually(lambda: stream.is_over)


async def test_the_first_keys_end_no_stream(known: WithProvider) -> None:
    assert known.face.runtime.callers is not None
    shown = bearer(known.issuer.sign(roles=["guests"]))
    # The keys come with it, and the next look at tokens finds that they are there.
    stream = Exchange(known.face.app, "GET", "/api/changes/stream", headers=shown)
    await stream.until(lambda content: b"changes follow" in content)
    await known.face.runtime.callers.read()
    await known.make("root", "admin")
    await known.say("root", "POST", "/api/jobs", SPEC)
    await stream.until(lambda content: b'"all":false' in content)
    await stream.cancel()


async def test_people_log_in_at_their_provider(known: WithProvider) -> None:
    face = known.face
    assert (await face.get("/api/session")).json["has_oidc"]
    back = f"{ORIGIN}/ops/login"
    begun = (await face.post("/api/session/oidc", {"redirect_uri": back}, **HOME)).json
    async with aiohttp.ClientSession() as web, web.get(begun["location"]) as page:
        code = (await page.text()).partition("code=")[2][:32]
    handed = {name: begun[name] for name in ("nonce", "verifier")}
    oidc = {"code": code, "redirect_uri": back, **handed}
    opened = await face.post("/api/session", {"oidc": oidc, "path": "/ops/"}, **HOME)
    ann = Browser(face, opened)
    caller = (await ann.get("/api/session")).json["caller"]
    assert (caller["name"], caller["roles"]) == ("oidc:ann", ["data", "read", "submit"])
    assert (await ann.change("POST", "/api/jobs", SPEC)).json["owner"] == "oidc:ann"
    again = await face.post("/api/session", {"oidc": oidc}, **HOME)
    assert (again.status, again.error["code"]) == (401, "unauthenticated")


async def test_a_login_leads_back_to_the_site_that_asks_and_nowhere_else(
    known: WithProvider,
) -> None:
    for back in ("https://evil.example/login", f"{ORIGIN}.evil.example/login", "/login"):
        said = await known.face.post("/api/session/oidc", {"redirect_uri": back}, **HOME)
        assert (said.status, said.error["field"]) == (400, "redirect_uri")
    said = await known.face.post("/api/session/oidc", {"redirect_uri": f"{ORIGIN}/login"})
    assert said.status == 400  # no browser sends a change without saying whence
