"""A Python environment for each peer, below `.tools/peers`, from a file of pinned requirements.

Made once, and again when the file or the Python changes. A file may ask for a newer Python than
ours.
"""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "bin" / "uv"
INSTALL_SECONDS_MAX = 600
PIP_SECONDS_MAX = 30
# Where a newer Python than ours may stand, beside the PATH.
PYTHONS = (
    *(Path.home() / ".pyenv" / "versions").glob("3.*/bin/python3"),
    *(Path.home() / ".local" / "share" / "uv" / "python").glob("cpython-3.*/bin/python3"),
)


def get_python(name: str) -> Path:
    """Return the Python of a peer's environment, made first if it is missing or out of date."""
    requirements = Path(__file__).with_name(f"{name}.txt")
    folder = ROOT / ".tools" / "peers" / name
    made_of, python = folder / ".made-of", folder / "bin" / "python"
    interpreter = _find_interpreter(name, requirements.read_text())
    wanted = f"{interpreter} {sys.version} {hashlib.sha256(requirements.read_bytes()).hexdigest()}"
    if not (made_of.exists() and made_of.read_text() == wanted):
        print(f"bench: setting up {folder}", file=sys.stderr)
        if UV.exists():
            _make_with_uv(folder, requirements, interpreter)
        else:
            _make_with_pip(folder, requirements, interpreter)
        made_of.write_text(wanted)
    return python


def _find_interpreter(name: str, requirements: str) -> str:
    """Find a Python that is new enough for a peer, ours first."""
    asked = re.search(r"^# Python: 3\.(\d+) or newer$", requirements, re.MULTILINE)
    if asked is None or sys.version_info.minor >= int(asked[1]):
        return sys.executable
    minors = range(int(asked[1]), int(asked[1]) + 10)
    found = [shutil.which(f"python3.{minor}") for minor in minors]
    for python in (*filter(None, found), *map(str, sorted(PYTHONS))):
        command = [python, "-c", "import sys; print(sys.version_info.minor)"]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PIP_SECONDS_MAX
        )
        if answer.returncode == 0 and int(answer.stdout) in minors:
            return python
    sys.exit(
        f"bench: {name} needs Python 3.{asked[1]} or newer, which is neither in the PATH nor below"
        f" ~/.pyenv; install one, or leave it out with --peers"
    )


def _make_with_uv(folder: Path, requirements: Path, interpreter: str) -> None:
    variables = os.environ | _pip_settings_for_uv() | {"VIRTUAL_ENV": str(folder)}
    for command in (
        ["venv", "--quiet", "--clear", "--python", interpreter, str(folder)],
        ["pip", "sync", "--quiet", "--require-hashes", str(requirements)],
    ):
        subprocess.run([UV, *command], env=variables, check=True, timeout=INSTALL_SECONDS_MAX)


def _make_with_pip(folder: Path, requirements: Path, interpreter: str) -> None:
    for command in (
        [interpreter, "-m", "venv", "--clear", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes",
         "--requirement", str(requirements)],
    ):  # fmt: skip
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS_MAX)


def _pip_settings_for_uv() -> dict[str, str]:
    """Hand pip's index and certificate on as variables of uv, which does not read pip's settings.

    What is set for uv already stays.
    """
    settings = _pip_settings()
    extra = [url for url in settings.get("extra-index-url", "").split() if url.startswith("http")]
    found = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(extra),
        "UV_INDEX_STRATEGY": "unsafe-best-match" if extra else "",
        "SSL_CERT_FILE": settings.get("cert", ""),
    }
    return {name: value for name, value in found.items() if value and name not in os.environ}


def _pip_settings() -> dict[str, str]:
    """Read what pip is told by all its files and variables; variables win."""
    # The Python that `./run` uses: that of our own environment may have no pip.
    command = [os.environ.get("PYTHON", "python3"), "-m", "pip", "config", "list"]
    # Not `pip config get`: that reads the user's file alone.
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PIP_SECONDS_MAX
    )
    found: dict[str, dict[str, str]] = {"global": {}, ":env:": {}}
    for line in answer.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key] = ast.literal_eval(value)
    return found["global"] | found[":env:"]
