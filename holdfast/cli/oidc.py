"""The flags of an identity provider, by which a server knows people without tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.model.access.roles import Role
    from holdfast.services.identity.claims import OidcSettings

SECRET_LENGTH_MAX = 4096


@Parameter(name="*", group=Group("Identity provider", help="OpenID Connect; see docs/security.md."))
@dataclass(frozen=True, kw_only=True)
class OidcFlags:
    """Who issues JWTs that count here, and what their claims mean."""

    oidc_issuer: Annotated[
        str | None,
        Parameter(env_var="HOLDFAST_OIDC_ISSUER", help="The issuer: a URL, as its JWTs have it."),
    ] = None
    oidc_audience: Annotated[
        str | None,
        Parameter(env_var="HOLDFAST_OIDC_AUDIENCE", help="What JWTs for this server are for."),
    ] = None
    oidc_role: Annotated[
        tuple[str, ...],
        Parameter(
            env_var="HOLDFAST_OIDC_ROLES",
            env_var_split=lambda _, text, **_how: text.replace(",", " ").split(),
            negative="",
            help="VALUE=ROLE: who has the value in the role claim has the role; repeat it.",
        ),
    ] = ()
    oidc_role_claim: Annotated[
        str,
        Parameter(
            env_var="HOLDFAST_OIDC_ROLE_CLAIM",
            help="The claim that roles are read from; with dots, within objects.",
        ),
    ] = "roles"
    oidc_name_claim: Annotated[
        str,
        Parameter(
            env_var="HOLDFAST_OIDC_NAME_CLAIM",
            help="The claim that names somebody; one that he cannot change himself.",
        ),
    ] = "sub"
    oidc_owner_claim: Annotated[
        str | None,
        Parameter(
            env_var="HOLDFAST_OIDC_OWNER_CLAIM",
            help="The claim with the owners whose jobs somebody is kept to, unless he is an admin.",
        ),
    ] = None
    oidc_client_id: Annotated[
        str | None,
        Parameter(
            env_var="HOLDFAST_OIDC_CLIENT_ID",
            help="The dashboard as the issuer knows it; with it, people log in there.",
        ),
    ] = None
    oidc_client_secret_file: Annotated[
        Path | None,
        Parameter(
            env_var="HOLDFAST_OIDC_CLIENT_SECRET_FILE",
            help="A file with the client's secret, if the issuer has given it one.",
        ),
    ] = None
    oidc_ca_file: Annotated[
        Path | None,
        Parameter(
            env_var="HOLDFAST_OIDC_CA_FILE",
            help="The CA of the issuer. Default: those of the system.",
        ),
    ] = None

    def settings(self, *, require_tokens: bool) -> "OidcSettings | None":
        """Read them; raises Invalid where they do not fit together."""
        from holdfast.services.identity.claims import OidcSettings
        from holdfast.services.identity.provider import is_safe
        from holdfast.tls.contexts import build_client_context

        if self.oidc_issuer is None:
            if self != NO_OIDC:
                raise Invalid("oidc_issuer", "is missing; the other --oidc flags go with it")
            return None
        if not require_tokens:
            raise Invalid("oidc_issuer", "goes with --require-tokens; without, nobody is asked")
        if not is_safe(self.oidc_issuer):
            raise Invalid("oidc_issuer", f"{self.oidc_issuer!r} is no URL with https")
        if self.oidc_audience is None:
            raise Invalid("oidc_audience", "is missing; name what JWTs for this server are for")
        if self.oidc_client_secret_file is not None and self.oidc_client_id is None:
            raise Invalid("oidc_client_id", "is missing; a secret is that of a client")
        if self.oidc_ca_file is not None:
            build_client_context(self.oidc_ca_file)
        return OidcSettings(
            issuer=self.oidc_issuer,
            audience=self.oidc_audience,
            roles=self._read_roles(),
            role_claim=self.oidc_role_claim,
            name_claim=self.oidc_name_claim,
            owner_claim=self.oidc_owner_claim,
            client_id=self.oidc_client_id,
            client_secret=self._read_secret(),
            ca_file=self.oidc_ca_file,
        )

    def _read_roles(self) -> "Mapping[str, Role]":
        from holdfast.model.access.roles import Role

        roles: dict[str, Role] = {}
        for each in self.oidc_role:
            value, _, role = each.rpartition("=")
            if not value or role not in set(Role):
                known = ", ".join(Role)
                problem = f"{each!r} is not VALUE=ROLE, with a role of {known}"
                raise Invalid("oidc_role", problem)
            if role == Role.WORKER:
                problem = f"{each!r} cannot be: workers register with a token; make one for them"
                raise Invalid("oidc_role", problem)
            if value in roles:
                raise Invalid(
                    "oidc_role", f"{value!r} is given a role twice; the highest is enough"
                )
            roles[value] = Role(role)
        if not roles:
            raise Invalid("oidc_role", "is missing; without VALUE=ROLE nobody may do anything")
        return roles

    def _read_secret(self) -> str | None:
        path = self.oidc_client_secret_file
        if path is None:
            return None
        try:
            secret = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid("oidc_client_secret_file", f"cannot be read: {error}") from error
        if not 0 < len(secret) <= SECRET_LENGTH_MAX:
            raise Invalid("oidc_client_secret_file", f"{path} does not hold a secret")
        return secret


NO_OIDC = OidcFlags()
