"""The flags of an identity provider: what goes together, and what does not."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.oidc import NO_OIDC, OidcFlags
from holdfast.errors import Invalid
from holdfast.model.access.roles import Role

GOOD: dict[str, Any] = {
    "oidc_issuer": "https://id.example",
    "oidc_audience": "holdfast",
    "oidc_role": ("a=b=submit", "chiefs=admin"),
}


def test_without_flags_there_is_none() -> None:
    assert NO_OIDC.settings(require_tokens=False) is None


def test_flags_make_settings(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    flags = OidcFlags(**GOOD, oidc_client_id="d", oidc_client_secret_file=secret)
    settings = flags.settings(require_tokens=True)
    assert settings is not None
    assert settings.roles == {"a=b": Role.SUBMIT, "chiefs": Role.ADMIN}
    assert (settings.role_claim, settings.name_claim) == ("roles", "sub")
    assert (settings.client_id, settings.client_secret) == ("d", "hush")


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({"oidc_issuer": None}, "oidc_issuer"),
        ({"oidc_issuer": "http://id.example"}, "oidc_issuer"),
        ({"oidc_audience": None}, "oidc_audience"),
        ({"oidc_role": ()}, "oidc_role"),
        ({"oidc_role": ("submit",)}, "oidc_role"),
        ({"oidc_role": ("a=root",)}, "oidc_role"),
        ({"oidc_role": ("a=read", "a=admin")}, "oidc_role"),
        ({"oidc_role": ("a=worker",)}, "oidc_role"),
        ({"oidc_client_secret_file": Path("x")}, "oidc_client_id"),
        (
            {"oidc_client_id": "d", "oidc_client_secret_file": Path("/nowhere")},
            "oidc_client_secret_file",
        ),
        (
            {"oidc_client_id": "d", "oidc_client_secret_file": Path("/dev/null")},
            "oidc_client_secret_file",
        ),
        ({"oidc_ca_file": Path("/nowhere")}, "ca_file"),
    ],
)
def test_what_does_not_fit_is_refused(flags: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        OidcFlags(**(GOOD | flags)).settings(require_tokens=True)
    assert refused.value.field == field


def test_it_goes_with_tokens() -> None:
    with pytest.raises(Invalid, match="--require-tokens"):
        OidcFlags(**GOOD).settings(require_tokens=False)
