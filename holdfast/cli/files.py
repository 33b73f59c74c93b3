"""Files that the command line names, read as texts and as lists of packages; texts to edit."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import Invalid

STDIN = "-"


def read_text(field: str, path: str) -> str:
    """Read a file, or standard input."""
    try:
        return sys.stdin.read() if path == STDIN else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(field, f"{path} cannot be read: {error}") from error


def read_requirements(path: str) -> list[str]:
    """Read Python packages from a file, one a line; comments and empty lines are left out."""
    packages = []
    for number, line in enumerate(read_text("requirements", path).splitlines(), 1):
        package = "" if line.lstrip().startswith("#") else line.partition(" #")[0].strip()
        if package.startswith("-") or package.endswith("\\"):
            raise Invalid(
                "requirements",
                f"{path}, line {number} is no package; write one a line, such as numpy==2.1, "
                "without options and hashes",
            )
        if package:
            packages.append(package)
    return packages


def edit_text(field: str, text: str, name: str) -> str:
    """Have a text edited in the user's editor, in a file of this name; one unchanged is refused."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(f"{text}\n", encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
        except OSError as error:
            raise Invalid(field, f"{editor} cannot be started: {error}; set EDITOR") from error
        if code:
            raise Invalid(field, f"{editor} ended with code {code}, so nothing was done")
        edited = read_text(field, str(path)).strip()
    if edited == text.strip():
        raise Invalid(field, "left everything as it was; leave it out to replay that")
    return edited
