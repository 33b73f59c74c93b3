"""Unpack a workspace bundle for an attempt.

Every attempt gets files of its own: what one writes, no other sees. A bundle comes from a stranger,
so nothing in it may reach outside of the folder that it is unpacked into.
"""

import errno
import io
import os
import stat
import struct
import threading
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from holdfast.wire.bundles import ENTRIES_MAX, UNPACKED_BYTES_MAX
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable, Hold

WRITE_BYTES = 1 << 20
DIRECTORY_BYTES_MAX = 64 << 20
LINK_BYTES_MAX = 4095  # longer targets no disk can have
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_ENTRY = b"PK\1\2"  # how an entry of the directory begins
# Errors of names that no disk can have; any other is this host's own trouble.
_IMPOSSIBLE = (
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


def unpack(hold: Hold, into: Path, stop: threading.Event) -> None:
    """Unpack a bundle into an empty folder. Raises BuildFailed, BuildUnavailable or OSError."""
    try:
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise BuildUnavailable(
                f"{into} is not empty; a workspace is unpacked into a new folder"
            )
        with _open(hold.fd) as file, zipfile.ZipFile(file) as bundle:
            entries = bundle.infolist()
            _check(entries)
            for entry in entries:
                _extract(bundle, entry, into, stop=stop)
            # Links come last: until then nothing can be written through one.
            links = [entry for entry in entries if _is_link(entry)]
            for entry in links:
                os.symlink(_read_target(bundle, entry), into / entry.filename)
            for entry in links:
                _check_link(into, into / entry.filename)
    except _BROKEN as error:
        raise BuildFailed(f"the bundle cannot be unpacked: {error}") from error
    except OSError as error:
        if error.errno in _IMPOSSIBLE:
            raise BuildFailed(f"the bundle cannot be unpacked: {error}") from error
        raise


class _BundleFile(io.BufferedReader):
    """A bundle whose directory, which is read in one piece, cannot take all memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a piece. Raises BuildFailed if it is a directory that nobody should read."""
        if size is None or size < 0:  # the last 64 kB, to find the end record
            return super().read(WRITE_BYTES)
        if size > DIRECTORY_BYTES_MAX:
            raise BuildFailed(f"the directory of the bundle is over {DIRECTORY_BYTES_MAX} bytes")
        piece = super().read(size)
        if size > WRITE_BYTES and piece.count(_ENTRY) > ENTRIES_MAX:
            raise BuildFailed(f"the bundle has over {ENTRIES_MAX} entries")
        return piece


def _open(fd: int) -> _BundleFile:
    return _BundleFile(io.FileIO(fd, "rb", closefd=False))


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
        if kind == stat.S_IFLNK and entry.file_size > LINK_BYTES_MAX:
            size = entry.file_size
            raise BuildFailed(
                f"the bundle has a link of {size} bytes, over {LINK_BYTES_MAX}: {name!r}"
            )
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


def _read_target(bundle: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    """Read where a link leads, and no more: the content may be longer than the size it states."""
    with bundle.open(entry) as source:
        return source.read(LINK_BYTES_MAX).decode()


def _check_link(into: Path, link: Path) -> None:
    """Refuse a link that leaves its folder, by itself or by way of others."""
    is_inside = Path(os.path.realpath(link)).is_relative_to(os.path.realpath(into))
    if not is_inside or os.path.isabs(os.readlink(link)):
        raise BuildFailed(f"the bundle has a link that leads out of it: {link.relative_to(into)}")
