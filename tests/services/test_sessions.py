"""Sessions at hand: kept as they are, or over."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import NotAllowed
from holdfast.model.access.callers import Caller
from holdfast.model.access.roles import Role
from holdfast.model.access.tokens import hash_secret
from holdfast.services.sessions import Sessions
from holdfast.store.tables.access.sessions import LivingSession

LATER = datetime.now(UTC) + timedelta(hours=1)
TOKEN = Caller("ci", frozenset({Role.READ}), frozenset({"ann"}), token_id="t1")


def row(secret: str = "s", **fields: Any) -> LivingSession:
    of: dict[str, Any] = {
        "token_id": "t1",
        "token_hash": b"h",
        "subject": None,
        "roles": [],
        "owners": [],
    }
    hashes = {"secret_hash": hash_secret(secret), "csrf_hash": hash_secret("csrf")}
    return LivingSession(**{**hashes, **of, "expires_at": LATER, **fields})


def find_token(token_id: str, token_hash: bytes) -> Caller | None:
    return TOKEN if (token_id, token_hash) == ("t1", b"h") else None


def test_a_session_is_its_token_for_as_long_as_both_last() -> None:
    sessions = Sessions()
    sessions.take([row()], find_token)
    session = sessions.find("s")
    assert session is not None
    assert (session.caller.name, session.caller.owners) == ("ci", TOKEN.owners)
    assert session.caller.ends_at == LATER.timestamp()
    assert session.caller is not TOKEN  # one may end without the other
    sessions.take([row(), row("other")], find_token)
    assert sessions.find("s") is session
    assert not session.caller.is_over
    sessions.take([row()], lambda *_: None)  # revoked, or rotated
    assert sessions.find("s") is None
    assert session.caller.is_over


def test_of_a_subject_the_session_says_what_he_may() -> None:
    of_ann: dict[str, Any] = {
        "token_id": None,
        "token_hash": None,
        "subject": "oidc:ann",
        "roles": ["data"],
    }
    sessions = Sessions()
    sessions.take([row(**of_ann, owners=["search"])], find_token)
    session = sessions.find("s")
    assert session is not None
    assert (session.caller.name, session.caller.owners) == ("oidc:ann", frozenset({"search"}))
    assert session.caller.roles == {Role.READ, Role.CONTENT}


def test_a_subject_who_submits_and_has_no_owners_is_for_his_own_jobs() -> None:
    of_ann: dict[str, Any] = {"token_id": None, "token_hash": None, "subject": "oidc:ann"}
    owners = []
    for roles in (["submit"], ["data"], ["admin"]):
        sessions = Sessions()
        sessions.take([row(**of_ann, roles=roles)], find_token)
        session = sessions.find("s")
        assert session is not None
        owners.append(session.caller.owners)
    assert owners == [frozenset({"oidc:ann"}), frozenset(), frozenset()]


@pytest.mark.parametrize("csrf", [b"", b"other", b"\xff"])
def test_nothing_is_changed_by_a_cookie_alone(csrf: bytes) -> None:
    sessions = Sessions()
    sessions.take([row()], find_token)
    session = sessions.find("s")
    assert session is not None
    for method in ("GET", "HEAD"):
        session.check(method, csrf)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        session.check(method, b"csrf")
        with pytest.raises(NotAllowed, match="Holdfast-Csrf"):
            session.check(method, csrf)
