"""TLS of whoever calls: which files are meant, and what to do when a certificate is refused."""

import os
import ssl
from pathlib import Path

from holdfast.errors import Invalid, Unavailable
from holdfast.tls.contexts import (
    CA_FILE_VARIABLE,
    CERT_VARIABLE,
    KEY_VARIABLE,
    Identity,
    build_client_context,
)
from holdfast.tls.watching import WatchedContext

OTHER_NAME = (62, 64)  # a host or an address that is not in it, by OpenSSL's numbers
NOT_NOW = (9, 10)


class CertificateRefused(Unavailable):
    """The certificate of whoever was called was refused, so nothing was said to him."""


def open_calling(ca_file: Path | None = None, identity: Identity | None = None) -> WatchedContext:
    """Prepare to call by TLS; what is not given is that of the environment."""
    trusted = ca_file or _variable_path(CA_FILE_VARIABLE)
    shown = identity or _find_identity()
    files = [] if trusted is None else [trusted]
    if shown is not None:
        files += [shown.cert, shown.key]
    return WatchedContext(files, lambda: build_client_context(trusted, shown))


def describe_refusal(error: BaseException, whose: str) -> str | None:
    """Say what is wrong with TLS towards somebody, and what to do; None if it is not TLS."""
    refused = _find_refusal(error)
    if refused is not None:
        problem = f"the certificate of {whose} was refused: {refused.verify_message}"
        return f"{problem}; {_remedy(refused.verify_code)}"
    text = str(error)
    if "CERTIFICATE_REQUIRED" in text:
        return (
            f"{whose} lets in only callers with a certificate; name yours with {CERT_VARIABLE} "
            f"and {KEY_VARIABLE}"
        )
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return f"{whose} does not speak TLS; if it is meant to, start it with --tls-cert"
    return None


def _remedy(code: int) -> str:
    if code in OTHER_NAME:
        return "call it by a name that is in it, or issue one with --host and the name used here"
    if code in NOT_NOW:
        return "issue a new one, or set the clock of this machine"
    return f"name the file of the CA that issued it with {CA_FILE_VARIABLE} or --ca-file"


def _find_refusal(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Find the refusal below what libraries have made of it."""
    inner = getattr(error, "certificate_error", error)  # aiohttp's is of the same class, and empty
    return inner if isinstance(inner, ssl.SSLCertVerificationError) else None


def _find_identity() -> Identity | None:
    cert, key = _variable_path(CERT_VARIABLE), _variable_path(KEY_VARIABLE)
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        missing = CERT_VARIABLE if cert is None else KEY_VARIABLE
        raise Invalid(missing, "is not set; a certificate goes with its key")
    return Identity(cert, key)


def _variable_path(name: str) -> Path | None:
    text = os.environ.get(name)
    return Path(text) if text else None
