"""Contexts: who is let in, and what is said of files that cannot be used."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from holdfast.errors import Invalid
from holdfast.tls.contexts import Identity, build_client_context, build_server_context
from tests.certificates import TestAuthority, shake_hands


def test_a_caller_trusts_the_ca_and_compares_the_name(authority: TestAuthority) -> None:
    server = build_server_context(authority.issue("s", "127.0.0.1", "one.example"))
    client = build_client_context(authority.ca_file)
    for host in ("127.0.0.1", "one.example"):
        shake_hands(server, client, host)
    for host in ("127.0.0.2", "two.example"):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|not valid for"):
            shake_hands(server, client, host)


def test_a_caller_trusts_no_other_ca(authority: TestAuthority, tmp_path: Path) -> None:
    server = build_server_context(authority.issue("s"))
    others = build_client_context(TestAuthority(tmp_path / "other").ca_file)
    for client in (others, build_client_context()):
        with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
            shake_hands(server, client)


def test_a_listener_with_a_ca_lets_in_only_its_certificates(
    authority: TestAuthority, tmp_path: Path
) -> None:
    server = build_server_context(authority.issue("s"), authority.ca_file)
    trusted = authority.ca_file
    mine = authority.issue("c", role="client")
    shake_hands(server, build_client_context(trusted, mine))
    foreign = TestAuthority(tmp_path / "other").issue("c", role="client")
    for identity in (None, foreign):
        with pytest.raises(ssl.SSLError, match=r"did not return|verify failed|unknown ca"):
            shake_hands(server, build_client_context(trusted, identity))


def test_what_cannot_be_used_is_named_with_its_setting(
    authority: TestAuthority, tmp_path: Path
) -> None:
    good, other = authority.issue("s"), authority.issue("o")
    missing, empty, locked = tmp_path / "none", tmp_path / "empty", tmp_path / "locked"
    empty.write_text("nothing")
    key = serialization.load_pem_private_key(good.key.read_bytes(), None)
    how = serialization.BestAvailableEncryption(b"secret")
    formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked.write_bytes(key.private_bytes(*formats, how))
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for identity, problem in (
        (Identity(missing, good.key), "tls_cert: there is no file"),
        (Identity(good.cert, missing), "tls_key: there is no file"),
        (Identity(empty, good.key), "tls_cert: .* holds no certificate; give a certificate in PEM"),
        (Identity(good.cert, empty), "tls_key: .* holds no private key"),
        (Identity(good.cert, other.key), "tls_key: .* is not the key of the certificate in"),
        (Identity(good.cert, locked), "tls_key: .* is encrypted; give one without a passphrase"),
        (Identity(broken, good.key), "tls_cert: .* cannot be used"),
        (Identity(tmp_path, good.key), "tls_cert: .* cannot be read: Is a directory"),
    ):
        with pytest.raises(Invalid, match=problem):
            build_server_context(identity)
    with pytest.raises(Invalid, match="tls_client_ca: there is no file"):
        build_server_context(good, missing)
    with pytest.raises(Invalid, match=r"ca_file: .* cannot be read"):
        build_client_context(broken)
