"""Programs of Debian's packages, unpacked below .tools, for which nobody has to be root."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

TOOLS = Path(__file__).parents[1] / ".tools"
FETCH_SECONDS_MAX = 300


class ProgramMissing(Exception):
    """A program is not there and could not be fetched; the text says what to do."""


def find_program(name: str, packages: Sequence[str], *, folder: str = "bin") -> Path:
    """Find a program: the one that HOLDFAST_NAME names, the system's, or that of the packages."""
    variable = f"HOLDFAST_{name.upper()}"
    of_system = shutil.which(name) or shutil.which(name, path=f"/usr/{folder}")
    if named := os.environ.get(variable) or of_system:
        return Path(named)
    root = TOOLS / packages[0]
    program = root / "usr" / folder / name
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{packages[0]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not program.exists():
            remedy = f"apt-get install {packages[0]}, or set {variable} to the program"
            with tempfile.TemporaryDirectory(dir=TOOLS) as fetched:
                _fetch_into(Path(fetched), packages, remedy)
                (Path(fetched) / "root").rename(root)
    return program


def _fetch_into(folder: Path, packages: Sequence[str], remedy: str) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise ProgramMissing(f"there is no apt-get to fetch {packages[0]}: {remedy}")
    fetch = ["apt-get", "download", *packages]
    fetched = _attempt(fetch, folder)
    if fetched.returncode and os.geteuid() == 0:  # a clean system knows no packages yet
        _attempt(["apt-get", "update"], folder)
        fetched = _attempt(fetch, folder)
    if fetched.returncode:
        raise ProgramMissing(
            f"{packages[0]} cannot be fetched ({fetched.stderr.strip()}): {remedy}"
        )
    for package in folder.glob("*.deb"):
        unpacked = _attempt(["dpkg", "-x", package.name, "root"], folder)
        if unpacked.returncode:
            raise ProgramMissing(f"{package.name}: {unpacked.stderr.strip()}: {remedy}")


def _attempt(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False
    )
