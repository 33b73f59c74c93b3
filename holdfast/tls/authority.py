"""A small CA in a folder: its key, and certificates for servers, workers and clients.

Keys are readable by their owner alone, and nothing that exists is written over.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.errors import Invalid
from holdfast.tls.roles import SERVER_UNIT

Role = Literal["server", "worker", "client"]
CA = "ca"
CERT_SUFFIX, KEY_SUFFIX = ".pem", ".key"
CA_DAYS, DAYS = 3650, 365
DAYS_MAX = 36_500
HOSTS_MAX = 100
# Clocks of hosts differ a little.
EARLIER = timedelta(hours=1)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_-]+)*")


class Written(NamedTuple):
    """The files of a certificate and of its key."""

    cert: Path
    key: Path


def create_authority(folder: Path, now: datetime, days: int = CA_DAYS) -> Written:
    """Make a CA in a folder of its own."""
    _check_days(days)
    files = _free_files(folder, CA)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Holdfast CA")])
    usage = _key_usage(signs_certificates=True)
    certificate = (
        _builder(name, name, key.public_key(), now=now, days=days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _write(files, certificate, key)


def issue(
    folder: Path,
    name: str,
    hosts: Sequence[str],
    *,
    now: datetime,
    days: int = DAYS,
    role: Role = "worker",
) -> Written:
    """Issue a certificate, with a new key, for the hosts by which its owner is called."""
    if not _NAME.fullmatch(name) or name == CA:
        raise Invalid("name", f"{name!r} cannot be the name of a file; use letters, digits and -")
    _check_days(days)
    names = _read_hosts(hosts, role)
    authority, authority_key = _open_authority(folder)
    if now + timedelta(days=days) > authority.not_valid_after_utc:
        left = (authority.not_valid_after_utc - now).days
        raise Invalid("days", f"is {days}, and the CA itself expires in {left} days; use fewer")
    files = _free_files(folder, name)
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if role == "server":
        parts.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, SERVER_UNIT))
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role != "client":
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = (
        _builder(x509.Name(parts), authority.subject, key.public_key(), now=now, days=days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer, critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _write(files, builder.sign(authority_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _read_hosts(hosts: Sequence[str], role: Role) -> list[x509.GeneralName]:
    if not hosts and role != "client":
        raise Invalid("host", "is missing; name each host or address by which it is called")
    if len(hosts) > HOSTS_MAX:
        raise Invalid("host", f"is given {len(hosts)} times; use {HOSTS_MAX} at most")
    return [_read_host(host) for host in dict.fromkeys(hosts)]


def _read_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        if len(host) > 253 or not _HOST.fullmatch(host):
            problem = f"{host!r} is no host; use a name or an address, without scheme and port"
            raise Invalid("host", problem) from None
        return x509.DNSName(host)


def _check_days(days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise Invalid("days", f"is {days}; use 1 to {DAYS_MAX}")


def _open_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    cert, key = _files(folder, CA)
    try:
        certificate = x509.load_pem_x509_certificate(cert.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except FileNotFoundError as error:
        problem = f"{folder} holds no CA ({error.filename} is missing); make one with"
        raise Invalid("folder", f"{problem} `holdfast ca init {folder}`") from error
    except (OSError, ValueError, TypeError) as error:
        raise Invalid("folder", f"the CA in {folder} cannot be read: {error}") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise Invalid("folder", f"{key} was not made by `holdfast ca init`")
    return certificate, private


def _files(folder: Path, name: str) -> Written:
    return Written(folder / f"{name}{CERT_SUFFIX}", folder / f"{name}{KEY_SUFFIX}")


def _free_files(folder: Path, name: str) -> Written:
    files = _files(folder, name)
    for path in files:
        if path.exists() or path.is_symlink():
            raise Invalid("folder", f"{path} exists already; move it away, or use another name")
    return files


def _write(
    files: Written, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Written:
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _create(files.key, secret, 0o600)
    _create(files.cert, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return files


def _create(path: Path, text: bytes, mode: int) -> None:
    """Write a file that was not there before."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise Invalid("folder", f"{path} cannot be written: {error.strerror or error}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
