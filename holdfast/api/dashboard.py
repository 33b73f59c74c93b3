"""The dashboard's files, as a build has left them in the package: kept in memory, sent as they are.

Every page is the same index.html. It finds its files and the API by a relative base, so that it
works below any path that a proxy strips off, and nobody has to say which.
"""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.api.route import NOSNIFF, Scope, Send

FOLDER = Path(__file__).resolve().parents[1] / "dashboard"
PAGES = frozenset(
    {
        "jobs",
        "tasks",
        "workers",
        "queues",
        "dead-letters",
        "datasets",
        "functions",
        "actions",
        "limits",
        "schedules",
    }
    | {"login"}
)
INDEX = "index.html"
# What the build writes into index.html, and what is exchanged for the way up from each page.
HERE = b'<base href="./" />'
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"font-src 'self'; connect-src 'self'; base-uri 'self'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
GUARDS = (
    (b"content-security-policy", POLICY),
    NOSNIFF,
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
# The names of assets hold a hash of what is in them, so they never change.
FOR_EVER = b"public, max-age=31536000, immutable"
ASK_AGAIN = b"no-cache"
HTML = b"text/html; charset=utf-8"
TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": HTML,
    ".ico": b"image/x-icon",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".webmanifest": b"application/manifest+json",
    ".woff2": b"font/woff2",
}
# What is small, or packed already, gains nothing from gzip.
PACKED = frozenset({".png", ".woff2"})
GZIP_BYTES_MIN = 1024
NOT_BUILT = b"""<!doctype html>
<html lang="en">
<title>Holdfast</title>
<h1>The dashboard is not built</h1>
<p>This server works, but it has no pages to show: they are made by a build.</p>
<p>In a checkout, run <code>./run dashboard</code> and start the server again.
Elsewhere, install Holdfast from its wheel, which holds them.</p>
<p>The API is described at <a href="./openapi.json">openapi.json</a>.</p>
</html>
"""


@dataclass(frozen=True, slots=True)
class File:
    """What is sent for one address."""

    content: bytes
    content_type: bytes
    caching: bytes
    tag: bytes
    packed: bytes | None = None


class Dashboard:
    """The pages and files of one build; without a build, a page that says so."""

    def __init__(self, folder: Path) -> None:
        self._files = _load(folder)
        self._index = self._files.pop(f"/{INDEX}", None)

    def has(self, path: str) -> bool:
        """Tell whether a path is one of the dashboard's."""
        return path in self._files or path == "/" or path.partition("/")[2].split("/")[0] in PAGES

    async def answer(self, scope: Scope, send: Send) -> None:
        """Send a file, or the page that stands for all others; `has` must have said yes."""
        file = self._files.get(scope["path"])
        if file is not None:
            await _send_file(file, scope, send)
        elif self._index is None:
            missing = File(NOT_BUILT, HTML, b"no-store", b"")
            await _send(send, missing, missing.content, status=503)
        else:
            content = self._index.content.replace(HERE, _way_up(scope["raw_path"]), 1)
            page = File(content, HTML, ASK_AGAIN, _tag(content))
            await _send_file(page, scope, send)


@cache
def open_dashboard(folder: Path = FOLDER) -> Dashboard:
    """Load a build once for each process, however many applications there are."""
    return Dashboard(folder)


def _way_up(raw_path: bytes) -> bytes:
    """Write the base of a page: back to where `/` is, as the browser counts.

    It looks at the path as it was sent: a slash within a name may be written as %2F.
    """
    depth = raw_path.count(b"/") - 1
    return b'<base href="%s" />' % (b"../" * depth or b"./")


async def _send_file(file: File, scope: Scope, send: Send) -> None:
    headers = dict(scope["headers"])
    content, tag = file.content, file.tag
    if file.packed is not None and _takes_gzip(headers.get(b"accept-encoding", b"")):
        content, tag = file.packed, b'%s-gzip"' % tag[:-1]
    if _is_known(tag, headers.get(b"if-none-match", b"")):
        await _send(send, file, None, status=304, tag=tag)
    else:
        is_wanted = scope["method"] != "HEAD"
        await _send(send, file, content, status=200, tag=tag, is_wanted=is_wanted)


async def _send(
    send: Send,
    file: File,
    content: bytes | None,
    *,
    status: int,
    tag: bytes = b"",
    is_wanted: bool = True,
) -> None:
    headers = [(b"cache-control", file.caching), *GUARDS]
    if tag:
        headers.append((b"etag", tag))
    if file.packed is not None:
        headers.append((b"vary", b"accept-encoding"))
    if content is not None:
        headers.append((b"content-type", file.content_type))
        headers.append((b"content-length", str(len(content)).encode()))
        if content is file.packed:
            headers.append((b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = content if content is not None and is_wanted else b""
    await send({"type": "http.response.body", "body": body})


def _is_known(tag: bytes, known: bytes) -> bool:
    tags = [each.strip().removeprefix(b"W/") for each in known.split(b",")]
    return tag in tags or b"*" in tags


def _takes_gzip(accepted: bytes) -> bool:
    for each in accepted.lower().split(b","):
        name, *parameters = [part.strip() for part in each.split(b";")]
        if name == b"gzip":
            return not any(text.rstrip(b"0") in (b"q=", b"q=0.") for text in parameters)
    return False


def _load(folder: Path) -> dict[str, File]:
    """Read every file of a build, by its address."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {f"/{path.relative_to(folder).as_posix()}": _read(path) for path in paths}


def _read(path: Path) -> File:
    content = path.read_bytes()
    kind = path.suffix
    is_large = kind not in PACKED and len(content) >= GZIP_BYTES_MIN
    return File(
        content,
        TYPES.get(kind, b"application/octet-stream"),
        FOR_EVER if path.parent.name == "assets" else ASK_AGAIN,
        _tag(content),
        gzip.compress(content, mtime=0) if is_large else None,
    )


def _tag(content: bytes) -> bytes:
    return b'"%s"' % hashlib.sha256(content).hexdigest()[:32].encode()
