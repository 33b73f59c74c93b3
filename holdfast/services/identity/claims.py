"""What an identity provider says of somebody, and what that makes of him here.

Signature, algorithm, issuer, audience and times are checked by joserfc; roles, owners and the name
are read from the claims that the settings name.
"""

import hmac
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key

from holdfast.errors import NotAllowed, Unauthenticated
from holdfast.model.access.callers import Caller
from holdfast.model.access.roles import Role, is_for_own_jobs, with_implied
from holdfast.model.access.tokens import JWT_LENGTH_MAX, is_jwt

# Signatures by a key pair alone: with `none` or HMAC whoever knows the public key could sign.
ALGORITHMS = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
)
LEEWAY_SECONDS = 30
NAME_LENGTH_MAX = 128
# No token's name has a colon, so nobody of a provider is taken for one.
PREFIX = "oidc:"
_REGISTRY = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """An identity provider, and what its claims mean here; see `holdfast server --help`."""

    issuer: str
    audience: str
    roles: Mapping[str, Role]
    role_claim: str = "roles"
    name_claim: str = "sub"
    owner_claim: str | None = None
    # Without it nobody logs in at the dashboard this way.
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    ca_file: Path | None = None


def read_head(text: str) -> str | None:
    """Give the id of the key that a JWT says it was signed with; raises Unauthenticated."""
    if not is_jwt(text):
        raise Unauthenticated(f"this is no JWT of up to {JWT_LENGTH_MAX} characters")
    try:
        head = jws.extract_compact(text.encode(), registry=_REGISTRY).headers()
    except (JoseError, ValueError) as error:
        raise Unauthenticated(f"this is no JWT: {error}") from error
    algorithm, key_id = head.get("alg"), head.get("kid")
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise Unauthenticated(f"this JWT is signed by {algorithm!r}; it must be one of {known}")
    return key_id if isinstance(key_id, str) else None


def read_claims(text: str, key: Key, *, issuer: str, audience: str) -> dict[str, Any]:
    """Check a JWT of `read_head` with its key, and give its claims; raises Unauthenticated."""
    required = jwt.JWTClaimsRegistry(
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        exp={"essential": True},
        sub={"essential": True},
    )
    try:
        claims = jwt.decode(text, key, registry=_REGISTRY).claims
        required.validate(claims)
    except (JoseError, ValueError, TypeError) as error:  # TypeError: for a `crit` that is no list
        raise Unauthenticated(f"this JWT is not valid here: {error}") from error
    return claims


def check_login(claims: Mapping[str, Any], *, client_id: str, nonce: str) -> None:
    """Refuse an ID token that was not issued for this login; raises Unauthenticated."""
    told = claims.get("nonce")
    if not isinstance(told, str) or not hmac.compare_digest(told.encode(), nonce.encode()):
        raise Unauthenticated("the identity provider answered another login; log in again")
    if claims.get("azp", client_id) != client_id:
        raise Unauthenticated("the identity provider answered another client")


def make_caller(claims: Mapping[str, Any], settings: OidcSettings) -> Caller:
    """Say who somebody is here, by claims that were checked; raises NotAllowed."""
    name = _name_of(claims, settings)
    values = _texts_of(_find(claims, settings.role_claim))
    roles = {settings.roles[value] for value in values if value in settings.roles}
    if not roles:
        raise NotAllowed(
            f"{name!r} has no role here: no value of the claim {settings.role_claim!r} is "
            "one that --oidc-role gives a role to",
            lacks="a role",
        )
    owners: tuple[str, ...] = ()
    if settings.owner_claim is not None and Role.ADMIN not in roles:
        owners = tuple(_texts_of(_find(claims, settings.owner_claim)))
        if not owners:
            raise NotAllowed(
                f"{name!r} is for no owner: the claim {settings.owner_claim!r} names none",
                lacks="an owner",
            )
    elif is_for_own_jobs(roles):
        owners = (name,)
    ends_at = float(claims["exp"]) + LEEWAY_SECONDS
    return Caller(name, with_implied(roles), frozenset(owners), ends_at=ends_at)


def _name_of(claims: Mapping[str, Any], settings: OidcSettings) -> str:
    name = _find(claims, settings.name_claim)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not _is_plain(name):
        problem = f"is not a name of up to {NAME_LENGTH_MAX} characters"
        raise Unauthenticated(f"the claim {settings.name_claim!r} of this JWT {problem}")
    return f"{PREFIX}{name}"


def _is_plain(name: str) -> bool:
    """Tell whether a name has no characters that are not seen, or that turn others around."""
    return not any(unicodedata.category(letter).startswith("C") for letter in name)


def _find(claims: Mapping[str, Any], path: str) -> Any:
    """Find a claim by its name, or by the names of the objects that it is in: `realm.roles`."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _texts_of(value: Any) -> list[str]:
    """Take a claim as texts: a list of them, or one with blanks between, as `scope` is."""
    if isinstance(value, str):
        return value.split()
    texts = value if isinstance(value, list) else []
    return [text for text in texts if isinstance(text, str) and text]
