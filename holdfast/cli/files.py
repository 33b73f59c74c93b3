"""Files that the command line names, read as texts and as lists of packages."""

import sys
from pathlib import Path

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
