"""What is installed: a wheel made from the source distribution holds the dashboard."""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GZIPPED_BYTES_MAX = 250_000
SECONDS_MAX = 300


def run(*command: str, cwd: Path) -> None:
    ended = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def unpack_sources(folder: Path) -> Path:
    """Make a source distribution and take it apart, as an installer does."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder), cwd=ROOT)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = file.getnames()
        file.extractall(folder, filter="data")
    assert not [n for n in names if "/node_modules/" in n or "/holdfast/dashboard/" in n]
    return folder / archive.name.removesuffix(".tar.gz")


def build_wheel(folder: Path) -> Path:
    """Build a wheel from a source distribution, with the packages of this checkout."""
    sources = unpack_sources(folder)
    packages = "dashboard/node_modules"
    shutil.copytree(
        ROOT / packages, sources / packages, symlinks=True, copy_function=_link, dirs_exist_ok=True
    )
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=sources)
    [wheel] = folder.glob("*.whl")
    return wheel


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = [n for n in file.namelist() if n.startswith("holdfast/dashboard/")]
        index = file.read("holdfast/dashboard/index.html")
        sent = [file.read(n) for n in names if n.endswith((".js", ".css"))]
        assert "holdfast/api/dashboard.py" in file.namelist()
        assert not [n for n in file.namelist() if not n.startswith("holdfast")]
    assert b'<base href="./" />' in index
    assert len(sent) >= 2
    assert sum(len(gzip.compress(content)) for content in sent) <= GZIPPED_BYTES_MAX


def test_a_wheel_holds_a_fresh_build_that_is_small(tmp_path: Path) -> None:
    """To fetch the packages of the dashboard anew is the nightly test's."""
    check_wheel(build_wheel(tmp_path))


@pytest.mark.nightly
def test_a_wheel_is_built_with_nothing_but_what_it_asks_for(tmp_path: Path) -> None:
    """In an environment of its own: its Node comes from the requirements of the build."""
    sources = unpack_sources(tmp_path)
    uv = shutil.which("uv", path=Path(sys.executable).parent)
    assert uv is not None
    run(uv, "build", "--wheel", "--out-dir", str(tmp_path), str(sources), cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    check_wheel(wheel)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
