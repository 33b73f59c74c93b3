"""Where a server may listen: beyond loopback, only with tokens, and with TLS here or at a proxy.

And where its database may be: beyond this machine, only with TLS.
"""

import ipaddress
from collections.abc import Sequence

from holdfast.errors import Invalid
from holdfast.model.addresses import is_loopback

ENCRYPTING = ("require", "verify-ca", "verify-full")


def check_database(hosts: Sequence[str], sslmode: str | None, *, is_trusted: bool) -> None:
    """Refuse a Postgres on another machine whose connections may be read on the way."""
    away = [host for host in hosts if not host.startswith("/") and not is_loopback(host)]
    if not away or is_trusted or sslmode in ENCRYPTING:
        return
    given = "nothing is said of TLS" if sslmode is None else f"sslmode={sslmode} may go without TLS"
    raise Invalid(
        "database_url",
        f"{away[0]} is another machine, and {given}; add ?sslmode=verify-full&sslrootcert=CA.pem, "
        "or --trust-database-network (HOLDFAST_TRUST_DATABASE_NETWORK=1) if nobody else can read "
        "or write on the way",
    )


def check_bind(host: str, *, requires_tokens: bool, has_tls: bool, behind_proxy: bool) -> None:
    """Refuse to be reached from other machines unless callers are known, and secrets not seen."""
    if is_loopback(host):
        return
    lacks = []
    if not requires_tokens:
        lacks.append(
            "--require-tokens (the first token: `holdfast tokens create --database-url ...`)"
        )
    if not has_tls and not behind_proxy:
        lacks.append(
            "--tls-cert and --tls-key, or --behind-proxy if a proxy in front of it ends TLS"
        )
    if lacks:
        raise Invalid(
            "host",
            f"{host!r} is not a loopback address; use 127.0.0.1 or ::1, or add "
            f"{'; and '.join(lacks)}",
        )
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise Invalid("host", f"{host!r} is not an address; use one, such as 10.0.0.5") from error
