"""Workspace bundles on a worker: fetched once, verified, kept as zips, unpacked for each attempt.

Every attempt gets files of its own: what one writes, no other sees. A bundle comes from a stranger,
so nothing in it may reach outside of the folder that it is unpacked into.
"""

import errno
import hashlib
import os
import stat
import struct
import threading
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.client.client import LEASE_HEADER
from holdfast.client.transport import Transport
from holdfast.errors import HoldfastError, Invalid, NotFound
from holdfast.wire.bundles import (
    BUNDLE_BYTES_MAX,
    ENTRIES_MAX,
    UNPACKED_BYTES_MAX,
    bundle_path,
    check_bundle_hash,
)
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
WRITE_BYTES = 1 << 20
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# What a disk says of names and places that cannot be; all else that it says is its own trouble.
_CANNOT_BE = (
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
    *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL),
)
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
)


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

    async def fetch(self, bundle: str, token: str) -> Fetched:
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
            if await self._bring(hold, path, token):
                return Fetched(hold, os.fstat(hold.fd).st_size, was_cached=False)
        raise BuildUnavailable(f"bundle {bundle} has been fetched by another task for too long")

    async def _bring(self, part: Hold, path: Path, token: str) -> bool:
        """Fetch a bundle into a file of its own, and name it; False if that needs another turn."""
        is_here = False
        try:
            if not _is_there(path):
                await self._download(part.fd, path.stem, token)
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

    async def _download(self, fd: int, bundle: str, token: str) -> None:
        digest = hashlib.sha256()
        os.ftruncate(fd, 0)  # what somebody left who was killed
        pieces = self._transport.fetch(
            bundle_path(bundle), headers={LEASE_HEADER: token}, seconds_max=FETCH_SECONDS_MAX
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


def unpack(hold: Hold, into: Path, stop: threading.Event) -> int:
    """Unpack a bundle into an empty folder; returns how many bytes came out of it."""
    try:
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise BuildUnavailable(
                f"{into} is not empty; a workspace is unpacked into a new folder"
            )
        with open(hold.fd, "rb", closefd=False) as file, zipfile.ZipFile(file) as bundle:
            entries = bundle.infolist()
            _check(entries)
            for entry in entries:
                _extract(bundle, entry, into, stop=stop)
            # Links come last: until then nothing can be written through one.
            links = [entry for entry in entries if _is_link(entry)]
            for entry in links:
                os.symlink(bundle.read(entry).decode(), into / entry.filename)
            for entry in links:
                _check_link(into, into / entry.filename)
    except _BROKEN as error:
        raise BuildFailed(f"the bundle cannot be unpacked: {error}") from error
    except OSError as error:
        if error.errno in _CANNOT_BE:
            raise BuildFailed(f"the bundle cannot be unpacked: {error}") from error
        raise
    return sum(entry.file_size for entry in entries)


def _check(entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse a bundle with names or sizes that nobody should unpack."""
    if len(entries) > ENTRIES_MAX:
        raise BuildFailed(f"the bundle has {len(entries)} entries, over {ENTRIES_MAX}")
    total = sum(entry.file_size for entry in entries)
    if total > UNPACKED_BYTES_MAX:
        raise BuildFailed(f"the bundle holds {total} bytes, over {UNPACKED_BYTES_MAX}")
    for entry in entries:
        name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
        parts = name.removesuffix("/").split("/")
        if "\\" in name or any(part in ("", ".", "..") for part in parts):
            raise BuildFailed(f"the bundle names a file outside of it: {name!r}")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise BuildFailed(f"the bundle holds something that is no file: {name!r}")
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _KINDS:
            raise BuildFailed(f"the bundle is packed in a way that is not known: {name!r}")


def _extract(
    bundle: zipfile.ZipFile, entry: zipfile.ZipInfo, into: Path, *, stop: threading.Event
) -> None:
    if stop.is_set():
        raise BuildUnavailable("the build was broken off")
    target = into / entry.filename
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if not _is_link(entry):
        with bundle.open(entry) as source, target.open("xb") as file:
            while piece := source.read(WRITE_BYTES):
                if stop.is_set():
                    raise BuildUnavailable("the build was broken off")
                file.write(piece)
        if entry.external_attr >> 16 & 0o100:
            target.chmod(0o755)


def _is_link(entry: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(entry.external_attr >> 16)


def _check_link(into: Path, link: Path) -> None:
    """Refuse a link that leaves its folder, by itself or by way of others."""
    is_inside = Path(os.path.realpath(link)).is_relative_to(os.path.realpath(into))
    if not is_inside or os.path.isabs(os.readlink(link)):
        raise BuildFailed(f"the bundle has a link that leads out of it: {link.relative_to(into)}")


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
