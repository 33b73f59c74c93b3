"""What stands in a certificate; for servers, which have the library that reads it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from holdfast.errors import Invalid

WARN = timedelta(days=30)


def read_certificate(path: Path) -> x509.Certificate:
    """Read the first certificate of a file: that of whoever shows it. Raises Invalid."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError as error:
        raise Invalid("tls_cert", f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise Invalid("tls_cert", f"{path} holds no certificate that can be read: {error}") from (
            error
        )


def check_valid(path: Path, now: datetime) -> datetime:
    """Refuse a certificate that no caller would accept now; returns when it expires."""
    certificate = read_certificate(path)
    until, since = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    if now >= until:
        raise Invalid("tls_cert", f"{path} has expired on {until:%Y-%m-%d}; issue a new one")
    if now < since:
        raise Invalid(
            "tls_cert", f"{path} is not valid before {since:%Y-%m-%d %H:%M} UTC; set the clock"
        )
    return until


def warning_of(path: Path, now: datetime) -> str | None:
    """Say how long a certificate is still good for, if that is not long."""
    left = read_certificate(path).not_valid_after_utc - now
    if left > WARN:
        return None
    return f"the certificate in {path} expires in {left.days} days; put a new one in its place"


def list_names(path: Path) -> list[str]:
    """List the hosts that a certificate is for, as a URL has them."""
    try:
        names = read_certificate(path).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return []
    addresses = names.value.get_values_for_type(x509.IPAddress)
    return [
        *names.value.get_values_for_type(x509.DNSName),
        *(f"[{address}]" if address.version == 6 else str(address) for address in addresses),
    ]


def utc_now() -> datetime:
    """Read this machine's clock: certificates are judged by it."""
    return datetime.now(UTC)
