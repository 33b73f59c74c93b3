"""What a JWT has to be before it counts, and what its claims make of somebody."""

import time
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from holdfast.errors import NotAllowed, Unauthenticated
from holdfast.model.access.roles import Role
from holdfast.model.access.tokens import JWT_LENGTH_MAX
from holdfast.services.identity.claims import (
    LEEWAY_SECONDS,
    OidcSettings,
    check_login,
    make_caller,
    read_claims,
    read_head,
)

KEY = RSAKey.generate_key(2048, {"kid": "k1"})
OTHER = RSAKey.generate_key(2048, {"kid": "k1"})
ISSUER, AUDIENCE = "https://id.example", "holdfast"
SETTINGS = OidcSettings(
    issuer=ISSUER,
    audience=AUDIENCE,
    roles={"people": Role.SUBMIT, "chiefs": Role.ADMIN, "guests": Role.CONTENT},
)


def sign(key: Any = KEY, algorithm: str = "RS256", **claims: Any) -> str:
    now = int(time.time())
    told = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 60} | claims
    told = {name: value for name, value in told.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": "k1"}, told, key, algorithms=[algorithm])


def read(text: str) -> dict[str, Any]:
    assert read_head(text) == "k1"
    return read_claims(text, KEY, issuer=ISSUER, audience=AUDIENCE)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_a_good_one_gives_its_claims(algorithm: str) -> None:
    assert read(sign(algorithm=algorithm, aud=["other", AUDIENCE]))["sub"] == "ann"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": ISSUER + "/"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": None},
        {"exp": -LEEWAY_SECONDS - 1},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": 600},
        {"sub": None},
        {"sub": 7},
    ],
)
def test_one_that_is_not_for_here_or_not_for_now_is_refused(claims: dict[str, Any]) -> None:
    now = int(time.time())  # the times above are seconds from here
    times = {name: now + claims[name] for name in ("exp", "nbf") if type(claims.get(name)) is int}
    with pytest.raises(Unauthenticated, match="not valid here"):
        read(sign(**claims | times))


def test_clocks_may_differ_a_little() -> None:
    now = int(time.time())
    assert read(sign(exp=now - LEEWAY_SECONDS + 15, nbf=now + LEEWAY_SECONDS - 15))["sub"] == "ann"


def test_a_signature_of_another_key_is_refused() -> None:
    with pytest.raises(Unauthenticated, match="not valid here"):
        read(sign(OTHER))
    head, body, _ = sign().split(".")
    with pytest.raises(Unauthenticated, match="not valid here"):
        read(f"{head}.{body}.{sign(OTHER).rpartition('.')[2]}")


def test_a_head_that_breaks_the_library_is_refused() -> None:
    head = urlsafe_b64encode(b'{"alg": "RS256", "kid": "k1", "crit": 5}').rstrip(b"=").decode()
    with pytest.raises(Unauthenticated):
        read(f"{head}.{sign().partition('.')[2]}")


def test_no_signature_and_no_shared_secret_will_do() -> None:
    # The public key is known to everybody: whoever signs by HMAC with it has proved nothing.
    public = OctKey.import_key(KEY.as_pem(private=False).hex())
    unsigned = urlsafe_b64encode(b'{"alg":"none","kid":"k1"}').decode().rstrip("=")
    for text in (sign(public, "HS256"), f"{unsigned}.{sign().split('.')[1]}."):
        with pytest.raises(Unauthenticated, match="is signed by"):
            read_head(text)
        with pytest.raises(Unauthenticated, match="not valid here"):
            read_claims(text, KEY, issuer=ISSUER, audience=AUDIENCE)


@pytest.mark.parametrize(
    "text", ["a.b.c", "..", "eyJhbGci.e30.x", "eyJ" + "x" * JWT_LENGTH_MAX + ".e30.x"]
)
def test_what_is_no_jwt_is_refused(text: str) -> None:
    with pytest.raises(Unauthenticated):
        read_head(text)


def caller_of(settings: OidcSettings = SETTINGS, **claims: Any) -> Any:
    return make_caller({"sub": "ann", "exp": 2e9, "roles": ["people"]} | claims, settings)


def test_roles_come_from_the_claim_that_is_named() -> None:
    ann = caller_of(roles=["unknown", "people"])
    assert (ann.name, ann.token_id) == ("oidc:ann", "")
    assert ann.roles == {Role.SUBMIT, Role.CONTENT, Role.READ}
    assert ann.owners == {"oidc:ann"}
    assert caller_of(roles="people chiefs").roles == set(Role)
    nested = OidcSettings(
        issuer=ISSUER, audience=AUDIENCE, roles=SETTINGS.roles, role_claim="realm_access.roles"
    )
    assert Role.SUBMIT in caller_of(nested, realm_access={"roles": ["people"]}).roles
    dotted = OidcSettings(
        issuer=ISSUER, audience=AUDIENCE, roles=SETTINGS.roles, role_claim="https://a.example/r"
    )
    assert Role.SUBMIT in caller_of(dotted, **{"https://a.example/r": ["people"]}).roles


def test_who_submits_is_for_the_jobs_of_his_own_name() -> None:
    for roles in (["people"], ["people", "guests"]):
        assert caller_of(roles=roles).owners == {"oidc:ann"}
    for roles in (["guests"], ["people", "chiefs"]):
        assert not caller_of(roles=roles).is_narrow


@pytest.mark.parametrize("roles", [None, [], ["admin"], "", {"people": 1}, 7, [["people"]]])
def test_whoever_is_given_no_role_may_nothing(roles: Any) -> None:
    with pytest.raises(NotAllowed, match="'oidc:ann' has no role here"):
        caller_of(roles=roles)


def test_owners_keep_everybody_but_admins_to_their_jobs() -> None:
    settings = OidcSettings(
        issuer=ISSUER, audience=AUDIENCE, roles=SETTINGS.roles, owner_claim="teams"
    )
    assert caller_of(settings, teams=["search", "ads"]).owners == {"search", "ads"}
    assert not caller_of(settings, roles=["chiefs"]).is_narrow
    nobody: list[Any] = [None, [], "", 3]
    for teams in nobody:
        with pytest.raises(NotAllowed, match="names none"):
            caller_of(settings, teams=teams)


@pytest.mark.parametrize("name", [None, "", 7, "x" * 129, "a\nb", "a\u202eb", "a\u200bb"])
def test_a_name_is_one_that_people_can_read(name: Any) -> None:
    settings = OidcSettings(
        issuer=ISSUER, audience=AUDIENCE, roles=SETTINGS.roles, name_claim="email"
    )
    assert caller_of(settings, email="ann@id.example").name == "oidc:ann@id.example"
    with pytest.raises(Unauthenticated, match="is not a name"):
        caller_of(settings, email=name)


def test_an_id_token_is_for_one_login() -> None:
    check_login({"nonce": "n"}, client_id="c", nonce="n")
    check_login({"nonce": "n", "azp": "c"}, client_id="c", nonce="n")
    for claims in ({}, {"nonce": "other"}, {"nonce": 7}, {"nonce": "n", "azp": "other"}):
        with pytest.raises(Unauthenticated):
            check_login(claims, client_id="c", nonce="n")
