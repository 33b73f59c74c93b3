"""Who calls: by which files, and what is said when a certificate is refused."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.tls.calling import describe_refusal, open_calling
from holdfast.tls.contexts import build_client_context, build_server_context
from tests.certificates import TestAuthority, shake_hands


def test_the_files_are_those_of_the_environment(
    authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = build_server_context(authority.issue("s"), authority.ca_file)
    client = authority.issue("c", role="client")
    monkeypatch.setenv("HOLDFAST_CA_FILE", str(authority.ca_file))
    monkeypatch.setenv("HOLDFAST_TLS_CERT", str(client.cert))
    with pytest.raises(Invalid, match="HOLDFAST_TLS_KEY: is not set"):
        open_calling()
    monkeypatch.setenv("HOLDFAST_TLS_KEY", str(client.key))
    _, listener = shake_hands(server, open_calling().current())
    assert listener.getpeercert()


def refuse(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str | None:
    with pytest.raises(ssl.SSLError) as refused:
        shake_hands(server, client, host)
    return describe_refusal(refused.value, "https://here")


def test_a_refusal_says_whose_certificate_and_what_to_do(
    authority: TestAuthority, tmp_path: Path
) -> None:
    server = build_server_context(authority.issue("s"))
    client = build_client_context(authority.ca_file)
    other = build_client_context(TestAuthority(tmp_path / "other").ca_file)
    old = build_server_context(authority.issue("o", days=1, ago=timedelta(days=3)))
    for said, whose, remedy in (
        (refuse(server, other, "localhost"), "unable to get local issuer", "HOLDFAST_CA_FILE or"),
        (refuse(server, client, "127.0.0.2"), "IP address mismatch", "issue one with --host"),
        (refuse(old, client, "localhost"), "certificate has expired", "issue a new one"),
    ):
        assert said is not None
        assert said.startswith("the certificate of https://here was refused: ")
        assert whose in said
        assert remedy in said


def test_what_is_no_matter_of_tls_is_left_to_others() -> None:
    assert describe_refusal(OSError("no route"), "https://here") is None
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    assert "does not speak TLS" in (describe_refusal(plain, "https://here") or "")
    asked = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] alert")
    assert "name yours with HOLDFAST_TLS_CERT" in (describe_refusal(asked, "https://here") or "")
