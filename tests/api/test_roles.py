"""Who may call what, made from the list of routes: each with no token, and with each wrong one."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.api import route as route_module
from holdfast.api.app import ROUTES
from holdfast.api.route import Narrowing, Route
from holdfast.model.access.roles import EVERYBODY, Role, with_implied
from holdfast.operations.tokens import revoke_token, rotate_token
from tests.api.asgi import Exchange
from tests.api.guarded import Guarded, bearer


def closed() -> list[Route]:
    return [route for route in ROUTES if route.role is not EVERYBODY]


async def test_every_route_refuses_who_may_not_call_it(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in Role:
        scope = {"owners": ("*",)} if role is Role.SUBMIT else {}
        await guarded.make(str(role), role, **scope)
    for name in ("revoked", "expired", "rotated"):
        soon = datetime.now(UTC) + timedelta(seconds=1000) if name == "expired" else None
        await guarded.make(name, "admin", expires_at=soon)
    runtime = guarded.face.runtime
    assert runtime.callers is not None
    await runtime.callers.read()
    first = await guarded.say("expired", "GET", "/api/jobs")
    assert first.status == 200  # and so its header is known
    assert (await guarded.say("revoked", "GET", "/api/jobs")).status == 200
    await revoke_token(guarded.database, "revoked", actor="root")
    await rotate_token(guarded.database, "rotated", grace=timedelta(0), actor="root")
    await runtime.callers.read()
    monkeypatch.setattr(time, "time", lambda: datetime.now(UTC).timestamp() + 2000)
    good, forged = guarded.tokens["admin"], guarded.tokens["admin"][:-1]
    strangers = {
        "nothing": None,
        "revoked": guarded.tokens["revoked"],
        "expired": guarded.tokens["expired"],
        "rotated": guarded.tokens["rotated"],
        "forged": forged + ("0" if good[-1] != "0" else "1"),
        "garbage": "hf_\xe4",
    }
    for route in closed():
        for who, text in strangers.items():
            status, error, headers = await guarded.ask(route, text)
            about = f"{who}: {route.method} {route.path}: {error}"
            assert (status, error["code"]) == (401, "unauthenticated"), about
            assert headers["www-authenticate"].startswith("Bearer"), about
        for role in Role:
            if route.content_type == "text/event-stream" and route.role in with_implied([role]):
                continue  # it would go on for ever
            status, error, _ = await guarded.ask(route, guarded.tokens[role])
            about = f"{role}: {route.method} {route.path}: {status} {error}"
            if route.role in with_implied([role]):
                assert status not in (401, 403), about
            else:
                assert (status, error["code"]) == (403, "not_allowed"), about
                assert error["details"]["lacks"] == f"role {route.role}", about


async def test_a_token_of_some_owners_or_queues_reaches_no_job_of_others(
    guarded: Guarded,
) -> None:
    for role in Role:
        await guarded.make(f"{role}-of-ann", role, **_scope_for(role))
    await guarded.make("all", "admin")
    spec = {"entrypoint": {"function": "a:b"}, "queue": "bobs", "owner": "bob"}
    job = (await guarded.say("all", "POST", "/api/jobs", spec)).json["job_id"]
    for route in closed():
        if route.narrowing is Narrowing.FUNCTION:
            continue  # told one by one below
        assert route.role is not None
        text = guarded.tokens[f"{route.role}-of-ann"]
        aimed = replace(route, path=route.path.replace("{job_id}", job))
        aimed = replace(aimed, path=aimed.path.replace("{task_id}", f"{job}.0"))
        status, error, _ = await guarded.ask(aimed, text)
        about = f"{route.method} {route.path}: {error}"
        names_a_job = "{job_id}" in route.path or "{task_id}" in route.path
        if names_a_job and route.narrowing is Narrowing.PATH:
            # As if it did not exist, and not a word of whose it is.
            assert (status, error["message"]) == (404, f"there is no job {job}"), about
        else:
            assert (status, error["code"]) == (403, "not_allowed"), about
            assert "-of-ann" in error["message"], about


def _scope_for(role: Role) -> dict[str, tuple[str, ...]]:
    if role in (Role.CONTENT, Role.SUBMIT):
        return {"owners": ("ann",)}
    return {"queues": ("anns",)}


async def test_a_token_that_is_revoked_while_a_body_comes_changes_nothing(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_module, "ADMITTED_SECONDS", 0.0)
    callers = guarded.face.runtime.callers
    assert callers is not None
    await guarded.make("leaked", "admin")
    await guarded.make("chief", "admin")
    hear = callers.read
    await hear()

    class Slow(Exchange):
        async def _receive(self) -> dict[str, Any]:
            await revoke_token(guarded.database, "leaked", actor="root")
            await hear()
            return await super()._receive()

    body = {"name": "mine", "roles": ["admin"]}
    headers = bearer(guarded.tokens["leaked"])
    said = await Slow(guarded.face.app, "POST", "/api/tokens", body=body, headers=headers).answer()
    assert said[0] == 401
    listed = (await guarded.say("chief", "GET", "/api/tokens")).json
    assert "mine" not in {token["name"] for token in listed["tokens"]}


CHANGES: dict[tuple[str, str], Any] = {
    ("PUT", "/api/limits/few"): {"scope": "queue", "most": 3},
    ("PUT", "/api/shares/queues/mail"): {"by": "owner"},
    ("PUT", "/api/types/report/policy"): {"defaults": {"priority": 1}},
    ("PUT", "/api/schedules/beat"): {
        "spec": {"entrypoint": {"command": ["true"]}, "queue": "mail"},
        "every": 60,
    },
    ("POST", "/api/schedules/beat:pause"): {},
    ("POST", "/api/queues/mail:pause"): {},
}


async def test_a_change_with_a_token_is_answered_at_once_and_in_its_name(guarded: Guarded) -> None:
    await guarded.make("ann", "admin")
    assert guarded.face.runtime.callers is not None
    await guarded.face.runtime.callers.read()
    for (method, target), body in CHANGES.items():
        said = await guarded.say("ann", method, target, body)
        assert said.status in (200, 201), (target, said)
        by = {said.json.get(name) for name in ("updated_by", "changed_by")}
        by.add(said.json.get("limit", {}).get("updated_by"))
        assert by <= {None, "ann"}, target
