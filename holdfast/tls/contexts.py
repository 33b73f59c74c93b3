"""TLS contexts from files in PEM; what is wrong with a file is told by the setting that named it.

Whoever is called shows a certificate, and its name is always compared with the one called.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import Invalid

CERTIFICATE = "-----BEGIN CERTIFICATE-----"
KEY = "PRIVATE KEY-----"
CA_FILE_VARIABLE = "HOLDFAST_CA_FILE"
CERT_VARIABLE = "HOLDFAST_TLS_CERT"
KEY_VARIABLE = "HOLDFAST_TLS_KEY"
FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    """The certificate that a process shows, with what is between it and the CA, and its key."""

    cert: Path
    key: Path


def build_server_context(identity: Identity, client_ca: Path | None = None) -> ssl.SSLContext:
    """Build what a listener needs; with a CA, only callers with a certificate of it get in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_identity(context, identity)
    if client_ca is not None:
        _load_authority(context, "tls_client_ca", client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def build_client_context(
    ca_file: Path | None = None, identity: Identity | None = None
) -> ssl.SSLContext:
    """Build what a caller needs: it trusts the CA of the file, or else those of the system."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # asks for a certificate, and for its name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is None:
        context.load_default_certs()
    else:
        _load_authority(context, "ca_file", ca_file)
    if identity is not None:
        load_identity(context, identity)
    return context


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Load a certificate and its key; raises Invalid, and the context is of no use then."""
    _check_holds("tls_cert", identity.cert, CERTIFICATE, what="a certificate")
    _check_holds("tls_key", identity.key, KEY, what="a private key")

    def refuse_to_ask() -> str:
        raise Invalid("tls_key", f"{identity.key} is encrypted; give one without a passphrase")

    try:
        context.load_cert_chain(identity.cert, identity.key, password=refuse_to_ask)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{identity.key} is not the key of the certificate in {identity.cert}"
            raise Invalid("tls_key", f"{problem}; give the two that were made together") from error
        problem = f"{identity.cert} and {identity.key} cannot be used: {error.reason or error}"
        raise Invalid("tls_cert", f"{problem}; give files in PEM") from error


def _load_authority(context: ssl.SSLContext, field: str, path: Path) -> None:
    _check_holds(field, path, CERTIFICATE, what="a certificate")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise Invalid(field, f"{path} cannot be read: {error.reason or error}; use PEM") from error


def _check_holds(field: str, path: Path, mark: str, *, what: str) -> None:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX)
    except FileNotFoundError as error:
        raise Invalid(field, f"there is no file {path}") from error
    except OSError as error:
        raise Invalid(field, f"{path} cannot be read: {error.strerror or error}") from error
    if mark.encode() not in text:
        raise Invalid(field, f"{path} holds no {what.partition(' ')[2]}; give {what} in PEM")
