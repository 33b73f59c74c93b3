"""The folder that holds everything of one embedded Postgres: what stands where, and its log."""

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from holdfast.embedded.errors import PostgresUnavailable

SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_BYTES_MAX = 107  # Linux's `sun_path`, less the closing NUL
PLAIN_PATH = re.compile(r"[\w/.-]+", re.ASCII)  # a comma, for one, would part two hosts in a URL
SHORT_FOLDER = Path("/tmp")  # not $TMPDIR: that may differ between processes, and be long itself
LOG_BYTES_MAX = 10_000_000
OWN_NAMES = {"cluster", "cluster.new", "socket", "postgres.log", "postgres.log.old", "objects"}
OWN_LOCKS = {"transition.lock", "users.lock", "server.lock", "postmaster.lock", "up.lock"}
HARMLESS_NAMES = {"lost+found"}


def default_folder() -> Path:
    """Return $HOLDFAST_DATA_DIR, or the place the XDG specification gives to such files."""
    chosen = os.environ.get("HOLDFAST_DATA_DIR")
    if chosen:
        return Path(chosen)
    shared = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not shared.is_absolute():  # to be ignored, the specification says
        try:
            shared = Path.home() / ".local" / "share"
        except RuntimeError as error:
            problem = "There is no folder to keep Postgres in: this user has no home."
            raise PostgresUnavailable(problem, "Set HOLDFAST_DATA_DIR.") from error
    return shared / "holdfast" / "postgres"


@dataclass(frozen=True)
class Folder:
    """Name the parts of one embedded Postgres."""

    path: Path

    @property
    def cluster(self) -> Path:
        """Return the folder Postgres calls its data directory; it exists only when it is whole."""
        return self.path / "cluster"

    @property
    def cluster_unfinished(self) -> Path:
        """Return the folder where a cluster is made before it is renamed."""
        return self.path / "cluster.new"

    @property
    def log(self) -> Path:
        """Return the file Postgres writes its log to."""
        return self.path / "postgres.log"

    def lock(self, name: str) -> Path:
        """Return the path of a lock file."""
        assert f"{name}.lock" in OWN_LOCKS, name
        return self.path / f"{name}.lock"

    @property
    def socket_folder(self) -> Path:
        """Return the folder for the socket: in here, or outside if its path would not do."""
        here = self.path / "socket"
        is_short = len(os.fsencode(here / SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX
        if is_short and PLAIN_PATH.fullmatch(str(here)):
            return here
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return SHORT_FOLDER / f"holdfast-{digest}"

    def prepare(self) -> None:
        """Create the folder if need be. Raises PostgresUnavailable if it holds other things."""
        if "\n" in str(self.path):  # it would break the lines of Postgres's own pid file
            problem = f"The path {str(self.path)!r} holds a line break."
            raise PostgresUnavailable(problem, "Name another folder (HOLDFAST_DATA_DIR).")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        strangers = {entry.name for entry in self.path.iterdir()}
        strangers -= OWN_NAMES | OWN_LOCKS | HARMLESS_NAMES
        if strangers and not self.cluster.exists():
            some = ", ".join(sorted(strangers)[:3])
            raise PostgresUnavailable(
                f"The folder {self.path} is not empty and not Holdfast's: it holds {some}.",
                "Name an empty or new folder (HOLDFAST_DATA_DIR).",
            )

    def prepare_socket_folder(self) -> None:
        """Create the folder for the socket. Raises PostgresUnavailable if somebody else made it."""
        folder, owner = self.socket_folder, self.path.stat()
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0 and folder.lstat().st_uid == 0:
            os.chown(folder, owner.st_uid, owner.st_gid, follow_symlinks=False)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner.st_uid or found.st_mode & 0o077:
            raise PostgresUnavailable(
                f"{folder}, wanted for the socket, does not belong to uid {owner.st_uid} alone.",
                f"Remove {folder}, or use a folder with a shorter path than {self.path}.",
            )

    def remove_socket_folder(self) -> None:
        """Remove the folder for the socket if it is outside and nobody has put anything into it."""
        outside = self.socket_folder
        if outside.parent == SHORT_FOLDER and outside.is_dir() and not any(outside.iterdir()):
            outside.rmdir()

    def trim_log(self) -> None:
        """Put a long log aside, over the one put aside before."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_suffix(".log.old"))

    def log_size(self) -> int:
        """Return how long the log is now, in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0

    def log_tail(self, since: int, lines_max: int = 20) -> str:
        """Return the last lines of what was logged after a size."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(max(since, self.log_size() - 200 * lines_max))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines_max:])
