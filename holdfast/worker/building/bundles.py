"""Workspace bundles on a worker: fetched once, verified, and kept as zips."""

import hashlib
import os
import threading
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.client.context import Lease
from holdfast.client.transport import Transport
from holdfast.errors import HoldfastError, Invalid, NotFound
from holdfast.wire.attempt_calls import own_bundle_path
from holdfast.wire.bundles import BUNDLE_BYTES_MAX, check_bundle_hash
from holdfast.worker.building.caches import (
    BuildFailed,
    BuildUnavailable,
    Hold,
    evict,
    in_thread,
    take_turns,
    try_hold,
)

FETCH_SECONDS_MAX = 1800.0


class Fetched(NamedTuple):
    """A bundle on this host, held until it is closed."""

    hold: Hold
    size: int
    was_cached: bool


class Bundles:
    """The bundles of this host; several workers may share the folder."""

    def __init__(self, folder: Path, transport: Transport, *, bytes_max: int) -> None:
        self._folder = folder
        self._transport = transport
        self._bytes_max = bytes_max

    async def fetch(self, bundle: str, lease: Lease) -> Fetched:
        """Give a bundle, fetched if need be; raises BuildFailed, BuildUnavailable or OSError."""
        try:
            check_bundle_hash(bundle)
        except Invalid as error:
            raise BuildFailed(str(error)) from error
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{bundle}.zip"
        part = self._folder / f"{bundle}.part"
        async for _ in take_turns(FETCH_SECONDS_MAX):
            hold = try_hold(path, shared=True)
            if hold is not None:
                hold.note_use()
                return Fetched(hold, os.fstat(hold.fd).st_size, was_cached=True)
            hold = try_hold(part, flags=os.O_RDWR | os.O_CREAT)
            if hold is None:  # somebody else is about to bring it
                continue
            if await self._bring(hold, path, lease):
                return Fetched(hold, os.fstat(hold.fd).st_size, was_cached=False)
        raise BuildUnavailable(f"bundle {bundle} has been fetched by another task for too long")

    async def _bring(self, part: Hold, path: Path, lease: Lease) -> bool:
        """Fetch a bundle into a file of its own, and name it; False if that needs another turn."""
        is_here = False
        try:
            if not _is_there(path):
                await self._download(part.fd, path.stem, lease)
                os.rename(part.path, path)
                part.path = path
                await in_thread(self._make_room)
                is_here = part.share()
            return is_here
        finally:
            if not is_here:
                if part.path != path:
                    _unlink(part.path)
                part.close()

    def _make_room(self, _: threading.Event) -> None:
        evict(self._folder, self._bytes_max, weigh=_size_of, remove=_unlink)

    async def _download(self, fd: int, bundle: str, lease: Lease) -> None:
        digest = hashlib.sha256()
        os.ftruncate(fd, 0)  # what somebody left who was killed
        pieces = self._transport.fetch(
            own_bundle_path(bundle), headers=lease.headers(), seconds_max=FETCH_SECONDS_MAX
        )
        size = 0
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    size += len(piece)
                    if size > BUNDLE_BYTES_MAX:
                        raise BuildFailed(f"bundle {bundle} is over {BUNDLE_BYTES_MAX} bytes")
                    await in_thread(partial(_write, fd, piece, digest=digest))
        except (NotFound, Invalid) as error:
            raise BuildFailed(f"{error}; upload the workspace again") from error
        except BuildFailed:
            raise
        except HoldfastError as error:
            raise BuildUnavailable(f"bundle {bundle} cannot be fetched: {error}") from error
        if digest.hexdigest() != bundle:
            raise BuildFailed(
                f"bundle {bundle} is wrong: what the server gave has the hash {digest.hexdigest()}"
            )


def _write(fd: int, piece: bytes, _: threading.Event, *, digest: "hashlib._Hash") -> None:
    digest.update(piece)
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _is_there(path: Path) -> bool:
    return path.exists()


def _size_of(path: Path) -> int:
    return path.stat().st_size


def _unlink(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
