"""Addresses as they are shown: a URL may hold a secret, which no message and no log may repeat."""

import ipaddress
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

SECRETS = ("password", "sslpassword")
POSTGRES_PORT = "5432"
UNREADABLE = "a URL that cannot be read"


def without_secrets(url: str) -> str:
    """Write a URL without its password."""
    parts = _split(url)
    if parts is None:
        return UNREADABLE
    login, _, hosts = parts.netloc.rpartition("@")
    user = login.partition(":")[0]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    shown = [pair for pair in pairs if pair[0] not in SECRETS]
    query = urlencode(shown, safe="/", quote_via=quote)
    return (
        f"{parts.scheme}://{f'{user}@' if user else ''}{hosts}{parts.path}"
        f"{f'?{query}' if query else ''}"
    )


def without_login(url: str) -> str:
    """Write the address of a server without user and password: a user may be a token."""
    parts = _split(url)
    if parts is None:
        return UNREADABLE
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def postgres_address(url: str) -> str:
    """Name where a Postgres is looked for: hosts and ports, or the folder of its socket."""
    parts = _split(url)
    if parts is None:
        return UNREADABLE
    query = dict(parse_qsl(parts.query))
    listed = parts.netloc.rpartition("@")[2] or query.get("host", "")
    port = query.get("port", POSTGRES_PORT)
    hosts = [_with_port(host, port) for host in listed.split(",") if host]
    return ", ".join(hosts) or "the address of PGHOST, or the local one"


def postgres_hosts(url: str) -> list[str]:
    """List the hosts that a URL names, without their ports; a socket's folder begins with /."""
    return [host for host, _ in postgres_places(url)]


def postgres_places(url: str) -> list[tuple[str, str]]:
    """List the hosts that a URL names, each with its port; a socket's folder begins with /."""
    parts = _split(url)
    if parts is None:
        return []
    query = dict(parse_qsl(parts.query))
    listed = (parts.netloc.rpartition("@")[2] or query.get("host", "")).split(",")
    ports = query.get("port", POSTGRES_PORT).split(",")
    if len(ports) == 1:
        ports *= len(listed)
    found = []
    for number, place in enumerate(listed):
        name, bracket, after = place.partition("]")
        host, _, port = (name.lstrip("["), "", after[1:]) if bracket else place.partition(":")
        if host:
            ordinary = ports[number] if number < len(ports) else POSTGRES_PORT
            found.append((unquote(host), port or ordinary))
    return found


def has_password(url: str) -> bool:
    """Tell whether a URL holds a secret."""
    parts = _split(url)
    if parts is None:
        return "@" in url
    login = parts.netloc.rpartition("@")[0]
    return ":" in login or any(name in SECRETS for name, _ in parse_qsl(parts.query))


def is_loopback(host: str) -> bool:
    """Tell whether a host, by name or address, is this machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult | None:
    """Take a URL apart; None if what looks like a path may be the end of a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return None if "@" in parts.path else parts


def _with_port(host: str, port: str) -> str:
    name = host.rpartition("]")[2]  # what follows an IPv6 address, or all of it
    return host if host.startswith("/") or ":" in name else f"{host}:{port}"
