"""A fresh folder for each test, and a house that every user may enter."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.embedded.binaries import get_binaries

from .users import PROGRAM, ROOT, clean_up


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder that does not exist yet; what still runs in it at the end is killed."""
    path = tmp_path / "pg"
    yield path
    clean_up(path)


@dataclass(frozen=True)
class House:
    """A place open to every user, with the programs in it."""

    path: Path
    binaries: Path
    python: Path
    code: Path
    program: Path


@pytest.fixture(scope="session")
def furnished() -> Iterator[House]:
    """Copy what a stranger needs (Python, Holdfast, Postgres) to where a stranger can reach it."""
    path = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    try:
        path.chmod(0o755)
        package = get_binaries().parents[1]
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(get_binaries().parent, path / package.name / "pginstall18")
        shutil.copytree(libraries, path / libraries.name)
        shutil.copytree(ROOT / "holdfast", path / "code" / "holdfast")
        shutil.copy(PROGRAM, path / "code")
        binaries = path / package.name / "pginstall18" / "bin"
        python = copy_python(path / "python")
        yield House(path, binaries, python, path / "code", path / "code" / PROGRAM.name)
    finally:
        shutil.rmtree(path)


@pytest.fixture
def house(furnished: House) -> Iterator[House]:
    """Give the house with an empty room for one test, in `path`."""
    room = Path(tempfile.mkdtemp(prefix="room-", dir=furnished.path))
    room.chmod(0o755)
    yield House(room, furnished.binaries, furnished.python, furnished.code, furnished.program)
    clean_up(room)


def copy_python(target: Path) -> Path:
    """Copy Python without any packages; returns the program."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(os.__file__).parent
    unneeded = shutil.ignore_patterns("test", "site-packages", "dist-packages", "__pycache__")
    shutil.copytree(library, target / "lib" / version, ignore=unneeded, symlinks=True)
    for shared in Path(sys.base_prefix, "lib").glob(f"lib{version}*.so*"):
        shutil.copy(shared, target / "lib")
    (target / "bin").mkdir()
    program = target / "bin" / version
    shutil.copy(Path(sys.executable).resolve(), program)
    subprocess.run([program, "-I", "-S", "-c", "import ctypes, fcntl"], check=True, timeout=20)
    return program
