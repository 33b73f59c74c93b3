"""The object store of a server: files named by their content, in a folder or in S3.

A name is the SHA-256 of what it names, so an object is written once, whoever writes it, and two
that write it at once write the same. What is uploaded is verified before it gets its name.
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.errors import Invalid, NotFound, Overloaded, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

UPLOADS_MAX = 16
PIECE_BYTES = 1 << 20
CONNECT_SECONDS_MAX = 5
REQUEST_SECONDS_MAX = 300
RETRIES_MAX = 3
RETRY_SECONDS_MAX = 20
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that the store holds; `is_new` if it did not before."""

    size: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class Location:
    """Where objects are: a bucket and a prefix in S3, or a folder."""

    path: str
    bucket: str | None = None


class ObjectStore:
    """Objects by the hash of their content. Nothing is opened or created before it is needed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._location = parse_location(url)
        self._uploads = 0

    async def put(self, digest: str, pieces: AsyncIterator[bytes]) -> StoredObject:
        """Take in what has this hash; raises Invalid, and keeps nothing, if it has another."""
        if self._uploads >= UPLOADS_MAX:
            raise Overloaded(f"{UPLOADS_MAX} uploads are under way already; try again later")
        self._uploads += 1
        try:
            with _problems_told("this server cannot keep the upload"), _spool() as spool:
                found = await _receive(pieces, spool)
                if found != digest:
                    raise Invalid("bundle", f"is {digest}, but the content has the hash {found}")
                return await self._keep(digest, spool)
        finally:
            self._uploads -= 1

    async def _keep(self, digest: str, spool: IO[bytes]) -> StoredObject:
        size = os.stat(spool.fileno()).st_size
        # One of another size is what a crash has left of it.
        if await self.find_size(digest) == size:
            return StoredObject(size, is_new=False)
        import obstore

        with self._problems():
            await obstore.put_async(self._backend, _key(digest), Path(spool.name))
        return StoredObject(size, is_new=True)

    async def find_size(self, digest: str) -> int | None:
        """Say how large an object is; None if there is no such object."""
        import obstore

        with self._problems():
            try:
                found = await obstore.head_async(self._backend, _key(digest))
            except FileNotFoundError:
                return None
        return found["size"]

    async def read(self, digest: str) -> AsyncGenerator[bytes, None]:
        """Read an object piece by piece."""
        import obstore

        with self._problems():
            try:
                found = await obstore.get_async(self._backend, _key(digest))
            except FileNotFoundError as error:
                raise NotFound("object", digest) from error
            async for piece in found.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    @cached_property
    def _backend(self) -> "Backend":
        from obstore.store import LocalStore, S3Store

        location = self._location
        if location.bucket is None:
            return LocalStore(location.path, mkdir=True)
        is_plain = any(os.environ.get(name, "").startswith("http:") for name in _ENDPOINT_VARIABLES)
        return S3Store(
            location.bucket,
            prefix=location.path or None,
            client_options={
                "allow_http": is_plain,
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
                "timeout": timedelta(seconds=REQUEST_SECONDS_MAX),
            },
            retry_config={
                "max_retries": RETRIES_MAX,
                "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX),
            },
        )

    @contextmanager
    def _problems(self) -> Iterator[None]:
        with _problems_told(f"the object store {self.url} does not serve"):
            yield


def parse_location(url: str) -> Location:
    """Read where objects are: s3://bucket/prefix, file:///folder, or a path."""
    scheme, mark, _ = url.partition("://")
    if not mark and url:
        return Location(str(Path(url).expanduser().absolute()))
    try:
        parts = urlsplit(url)
        host, path = parts.netloc, unquote(parts.path)
    except ValueError:
        host = path = scheme = ""
    if scheme == "s3" and host:
        return Location(path.strip("/"), host)
    if scheme == "file" and host in ("", "localhost") and path.startswith("/"):
        return Location(path)
    raise Invalid(
        "object_store",
        f"{url!r} is no location; write a folder, file:///folder or s3://bucket/prefix",
    )


def _key(digest: str) -> str:
    return f"sha256/{digest}"


@contextmanager
def _spool() -> Iterator[IO[bytes]]:
    """Give a file on disk to write to; it is gone after the block."""
    with tempfile.NamedTemporaryFile(prefix="holdfast-upload-") as spool:
        yield spool.file


async def _receive(pieces: AsyncIterator[bytes], spool: IO[bytes]) -> str:
    """Write what comes to a file, and give its hash; neither holds up the event loop."""
    digest = hashlib.sha256()

    def write(part: bytes) -> None:
        digest.update(part)
        spool.write(part)

    waiting = bytearray()
    async for piece in pieces:
        waiting += piece
        if len(waiting) >= PIECE_BYTES:
            await asyncio.to_thread(write, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(write, bytes(waiting))
    await asyncio.to_thread(spool.flush)
    return digest.hexdigest()


@contextmanager
def _problems_told(subject: str) -> Iterator[None]:
    """Turn what a disk or a store refuses into a line for people."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise Unavailable(f"{subject}: {reason}") from error
