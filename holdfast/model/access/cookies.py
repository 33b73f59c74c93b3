"""The cookie of a session at the dashboard: how it is called, written and found.

It is for one place: the host, without its sub-domains, and the path at which the dashboard is. By
https its name has a prefix, by which browsers refuse it from anybody who speaks for a part of the
host only: `__Host-` where it is for the whole of it, `__Secure-` below a path of a proxy.
"""

import re
from datetime import timedelta

NAME = "holdfast"
HOST_NAME = f"__Host-{NAME}"
SECURE_NAME = f"__Secure-{NAME}"
ROOT = "/"
_SECRET = re.compile(r"[0-9a-f]{64}")
# What a browser writes into an address; no semicolon, which would end the path.
_PATH = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,=:@%-]+/){0,20}")
PATH_LENGTH_MAX = 512


def is_cookie_path(path: str) -> bool:
    """Tell whether a dashboard could be at a path: it begins and ends with a slash."""
    return len(path) <= PATH_LENGTH_MAX and _PATH.fullmatch(path) is not None


def write_cookie(secret: str, *, path: str, is_secure: bool, lasts: timedelta) -> str:
    """Write the header by which a browser keeps a session's secret, and shows it to no script."""
    parts = [f"{_name(path, is_secure=is_secure)}={secret}", f"Path={path}"]
    parts += [f"Max-Age={int(lasts.total_seconds())}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if is_secure else parts)


def drop_cookie(*, path: str, is_secure: bool) -> str:
    """Write the header by which a browser forgets it."""
    return write_cookie("", path=path, is_secure=is_secure, lasts=timedelta(0))


def find_secret(header: bytes) -> str | None:
    """Find the secret of a session in what a browser sends; the safest name goes first."""
    values: dict[str, str] = {}
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        # Of several, browsers send that of the longest path first.
        values.setdefault(name, value)
    for name in (HOST_NAME, SECURE_NAME, NAME):
        if _SECRET.fullmatch(values.get(name, "")):
            return values[name]
    return None


def _name(path: str, *, is_secure: bool) -> str:
    if not is_secure:
        return NAME
    return HOST_NAME if path == ROOT else SECURE_NAME
