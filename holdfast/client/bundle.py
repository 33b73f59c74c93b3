"""A folder as a bundle: a zip that is the same, byte for byte, as long as the files are.

Names are sorted, times and owners left out; of the modes only the executable bit is kept. What is
named in `.holdfastignore`, written like a `.gitignore`, stays at home.
"""

import hashlib
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import Invalid
from holdfast.wire.bundles import BUNDLE_BYTES_MAX, ENTRIES_MAX, UNPACKED_BYTES_MAX

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FIELD = "workspace"
IGNORE_FILE = ".holdfastignore"
NEVER = (".git", ".venv", "__pycache__", "*.pyc", "node_modules")
NAMED_MAX = 5
PIECE_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first day that a zip knows
_UNIX = 3
_LEVEL = 1  # a third of the time of the usual 6 or less, for a tenth more bytes


class Bundle(NamedTuple):
    """What was packed: the hash that is its name, and how many bytes it has."""

    hash: str
    size: int


class _Entry(NamedTuple):
    name: str
    path: Path
    mode: int
    size: int


def pack(
    folder: str | os.PathLike[str], into: Path, *, bytes_max: int = BUNDLE_BYTES_MAX
) -> Bundle:
    """Write a folder's bundle to a file; raises Invalid if it is too large or cannot be packed."""
    root = Path(folder)
    if not root.is_dir():
        raise Invalid(FIELD, f"{root} is not a folder")
    try:
        entries = sorted(_walk(root, "", _read_ignored(root)))
        _check_amount(entries)
        with zipfile.ZipFile(into, "w") as bundle:
            for entry in entries:
                _add(bundle, entry, root.resolve())
                if (size := into.stat().st_size) > bytes_max:
                    raise _too_large(f"its bundle has {_count(size)} or more", bytes_max, entries)
        size = into.stat().st_size
        if size > bytes_max:
            raise _too_large(f"its bundle has {_count(size)}", bytes_max, entries)
        with into.open("rb") as written:
            return Bundle(hashlib.file_digest(written, "sha256").hexdigest(), size)
    except OSError as error:
        raise Invalid(FIELD, f"cannot be packed: {error}") from error


def _walk(folder: Path, prefix: str, ignored: "GitIgnoreSpec") -> Iterator[_Entry]:
    with os.scandir(folder) as found:
        children = list(found)
    for child in children:
        name = f"{prefix}{child.name}"
        is_folder = child.is_dir(follow_symlinks=False)
        if ignored.match_file(f"{name}/" if is_folder else name):
            continue
        _check_name(name)
        found_stat = child.stat(follow_symlinks=False)
        path = Path(child.path)
        if is_folder:
            yield _Entry(f"{name}/", path, stat.S_IFDIR | 0o755, 0)
            yield from _walk(path, f"{name}/", ignored)
        elif stat.S_ISLNK(found_stat.st_mode):
            yield _Entry(name, path, stat.S_IFLNK | 0o777, 0)
        elif stat.S_ISREG(found_stat.st_mode):
            mode = 0o755 if found_stat.st_mode & 0o100 else 0o644
            yield _Entry(name, path, stat.S_IFREG | mode, found_stat.st_size)
        else:
            raise Invalid(
                FIELD, f"{name} is no file, folder or link; name it in {IGNORE_FILE}, or remove it"
            )


def _read_ignored(root: Path) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    try:
        text = (root / IGNORE_FILE).read_text(encoding="utf-8")
        return GitIgnoreSpec.from_lines([*NEVER, *(line.strip() for line in text.splitlines())])
    except FileNotFoundError:
        return GitIgnoreSpec.from_lines(NEVER)
    except ValueError as error:  # not UTF-8, or no pattern
        raise Invalid(IGNORE_FILE, f"cannot be read: {error}") from error


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise Invalid(FIELD, f"{name!r} is a name that is not UTF-8; rename it") from error
    if "\\" in name:
        raise Invalid(FIELD, f"{name!r} holds a backslash, which is not a name everywhere")


def _check_amount(entries: Sequence[_Entry]) -> None:
    if len(entries) > ENTRIES_MAX:
        raise Invalid(
            FIELD,
            f"{len(entries)} files and folders are over the limit of {ENTRIES_MAX}; "
            f"name in {IGNORE_FILE} what a task does not need",
        )
    total = sum(entry.size for entry in entries)
    if total > UNPACKED_BYTES_MAX:
        raise _too_large(f"its files have {_count(total)}", UNPACKED_BYTES_MAX, entries)


def _add(bundle: zipfile.ZipFile, entry: _Entry, root: Path) -> None:
    described = zipfile.ZipInfo(entry.name, _EPOCH)
    described.create_system = _UNIX
    described.external_attr = entry.mode << 16
    described.compress_type = zipfile.ZIP_DEFLATED
    # The archive's own level is for entries that it describes itself; this has no other name yet.
    described._compresslevel = _LEVEL  # type: ignore[attr-defined]
    described.file_size = entry.size
    if stat.S_ISDIR(entry.mode):
        described.compress_type = zipfile.ZIP_STORED
        described.external_attr |= 0x10  # what other systems look at
        bundle.writestr(described, b"")
    elif stat.S_ISLNK(entry.mode):
        bundle.writestr(described, _read_link(entry, root).encode())
    else:
        with entry.path.open("rb") as source, bundle.open(described, "w") as target:
            shutil.copyfileobj(source, target, PIECE_BYTES)


def _read_link(entry: _Entry, root: Path) -> str:
    """Read where a link leads; what is outside will not be there where the bundle goes."""
    target = os.readlink(entry.path)
    real = Path(os.path.realpath(entry.path))
    leaves = PurePosixPath(target).is_absolute() or not real.is_relative_to(root)
    steps = os.path.normpath(os.path.join(os.path.dirname(entry.name), target))
    if leaves or steps == ".." or steps.startswith("../"):
        raise Invalid(
            FIELD,
            f"the link {entry.name} leads out of the folder, to {target}; "
            f"name it in {IGNORE_FILE}, or put what it leads to into the folder",
        )
    _check_name(target)
    return target


def _too_large(found: str, limit: int, entries: Sequence[_Entry]) -> Invalid:
    largest = sorted(entries, key=lambda entry: entry.size, reverse=True)[:NAMED_MAX]
    named = ", ".join(f"{entry.name} ({_count(entry.size)})" for entry in largest if entry.size)
    return Invalid(
        FIELD,
        f"{found}, over the limit of {_count(limit)}; name in {IGNORE_FILE} what a task does not "
        f"need. The largest files: {named}",
    )


def _count(size: int) -> str:
    for unit, power in (("GB", 3), ("MB", 2), ("kB", 1)):
        if size >= 1000**power:
            return f"{size / 1000**power:.1f} {unit}"
    return f"{size} bytes"
