"""The version of Holdfast that landed before this one, from this checkout's own history.

`previous.txt` names its commit. Its package runs in this checkout's environment.
"""

import io
import subprocess
import tarfile
from pathlib import Path

from holdfast.store.migrate import Schema, load_schema

ROOT = Path(__file__).resolve().parents[2]
COMMIT = Path(__file__).with_name("previous.txt").read_text(encoding="utf-8").strip()
GIT_SECONDS_MAX = 60


class PreviousMissing(Exception):
    """The commit of the version before this one is not here."""


def take_out_previous(folder: Path, *, root: Path = ROOT) -> Path:
    """Write its package into a folder; raises PreviousMissing, which says what to do."""
    command = ["git", "-C", str(root), "archive", "--format=tar", COMMIT, "holdfast"]
    try:
        archive = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS_MAX, check=True)
    except FileNotFoundError as error:
        raise PreviousMissing(f"upgrades are tested from commit {COMMIT}: install git") from error
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
        raise PreviousMissing(
            f"upgrades are tested from commit {COMMIT}, which is not in the history of {root} "
            f"({why}): `git fetch --unshallow`, or test in a full clone"
        ) from error
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def load_previous_schema(folder: Path) -> Schema:
    """Read the schema of the version that was taken out into a folder."""
    return load_schema(folder / "holdfast" / "store" / "schema")
