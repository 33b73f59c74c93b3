"""The embedded Postgres as its user sees it: start, use, stop."""

import os
import subprocess
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from holdfast.embedded import binaries, cluster, postmaster
from holdfast.embedded.errors import PostgresUnavailable
from holdfast.embedded.folder import SOCKET_NAME, Folder
from holdfast.embedded.locks import SharedLock, exclusive, find_holder, is_free

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "holdfast",
}
FIXED_SETTINGS = {"port", "unix_socket_directories"}
START_TIMEOUT = timedelta(seconds=60)
STOP_WAIT_SECONDS_MAX = 120.0
PSQL_SECONDS_MAX = 30.0
CREATE_DATABASE = r"""
select format('create database %I', :'name')
 where not exists (select from pg_database where datname = :'name') \gexec
"""


class EmbeddedPostgres:
    """A Postgres of our own in one folder, shared with every other process that uses the folder.

    Settings count for the one who starts the server; who joins it takes it as it is.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        start_timeout: timedelta = START_TIMEOUT,
    ) -> None:
        chosen = dict(settings or {})
        if fixed := FIXED_SETTINGS & chosen.keys():
            raise ValueError(f"these settings cannot be chosen: {', '.join(sorted(fixed))}")
        self._folder = Folder(folder.resolve())
        self._chosen_binaries = binaries
        self._settings = SETTINGS | chosen
        self._start_timeout = start_timeout
        self._use = SharedLock(self._folder.lock("users"))
        self._socket_folder: Path | None = None

    def start(self) -> None:
        """Join the server, or start it; called again, start it anew if it has died meanwhile."""
        deadline = time.monotonic() + self._start_timeout.total_seconds()
        try:
            self._folder.prepare()
            with exclusive(self._folder.lock("transition"), deadline):
                self._join_or_undo(deadline)
        except OSError as error:
            problem = f"Postgres cannot use the folder {self._folder.path}: {error}"
            remedy = "Make it usable, or name another folder (HOLDFAST_DATA_DIR)."
            raise PostgresUnavailable(problem, remedy) from error

    def stop(self) -> None:
        """Leave the server, and shut it down if nobody else uses it; may be called again."""
        if not self._use.is_held:
            return
        self._socket_folder = None
        try:
            deadline = time.monotonic() + STOP_WAIT_SECONDS_MAX
            with exclusive(self._folder.lock("transition"), deadline):
                self._leave()
        finally:
            self._use.release()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database on the server, for asyncpg and for programs with libpq."""
        assert self._socket_folder is not None, "not started"
        # All that an environment variable (PGPORT, PGSSLMODE) could change is said here.
        fixed = f"host={self._socket_folder}&port=5432&sslmode=disable"
        return f"postgresql://postgres@/{quote(database, safe='')}?{fixed}"

    def create_database(self, name: str) -> None:
        """Create a database unless it is there."""
        program = binaries.get_binaries(self._chosen_binaries) / "psql"
        options = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--set=name={name}"]
        command = [str(program), *options, f"--dbname={self.url()}"]
        own = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        variables = own | {"PGCLIENTENCODING": "UTF8"}
        # One at a time: two at once would both see it missing.
        with exclusive(self._folder.lock("transition"), time.monotonic() + PSQL_SECONDS_MAX):
            try:
                subprocess.run(
                    command,
                    input=CREATE_DATABASE,
                    env=variables,
                    capture_output=True,
                    encoding="utf-8",
                    check=True,
                    timeout=PSQL_SECONDS_MAX,
                )
            except subprocess.SubprocessError as error:
                problem = f"The database {name} cannot be created: {error}"
                said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
                raise PostgresUnavailable(problem, "See below for the reason.", said) from error

    @property
    def is_running(self) -> bool:
        """Tell whether the postmaster lives."""
        return find_holder(self._folder.lock("postmaster")) is not None

    @property
    def pid(self) -> int:
        """Return the pid of the running postmaster. Raises PostgresUnavailable if it has died."""
        pid = find_holder(self._folder.lock("postmaster"))
        if pid is None:
            problem = f"Postgres in {self._folder.path} does not run."
            raise PostgresUnavailable(problem, "Start it again.", self._folder.log_tail(since=0))
        return pid

    @property
    def log(self) -> Path:
        """Return the path of the server's log."""
        return self._folder.log

    def _join_or_undo(self, deadline: float) -> None:
        self._use.hold()
        try:
            self._socket_folder = self._bring_up(deadline)
        except postmaster.StillStarting:
            self._use.release()
            raise
        except BaseException:  # also a Ctrl-C: nothing that was started here stays behind
            self._leave()
            raise

    def _bring_up(self, deadline: float) -> Path:
        """Make sure that a server is ready and return the folder of its socket."""
        programs = binaries.get_binaries(self._chosen_binaries)
        folder, version = self._folder, binaries.get_major_version(programs)
        if not folder.cluster.exists():
            is_durable = self._settings["fsync"] != "off"
            cluster.create_cluster(
                folder, programs, version=version, is_durable=is_durable, deadline=deadline
            )
        cluster.check_version(folder, version)
        if not (postmaster.is_running(folder) and postmaster.await_ready(folder, deadline)):
            self._launch(programs, deadline)
        written = postmaster.find_pid_file(folder)
        if written is None or not (written.socket_folder / SOCKET_NAME).exists():
            where = written.socket_folder if written else folder.cluster / "postmaster.pid"
            problem = (
                f"Postgres runs in {folder.path}, but its socket is not to be seen in {where}."
            )
            raise PostgresUnavailable(problem, "Use the same /tmp as the process that started it.")
        return written.socket_folder

    def _launch(self, programs: Path, deadline: float) -> None:
        folder, logged = self._folder, self._folder.log_size()
        fixed = {"port": "5432", "unix_socket_directories": str(folder.socket_folder)}
        postmaster.launch_server(folder, programs, self._settings | fixed, deadline=deadline)
        if not postmaster.await_ready(folder, deadline):
            problem = f"Postgres could not be started in {folder.path}."
            remedy = f"See below for its reason, and {folder.log} for the whole log."
            raise PostgresUnavailable(problem, remedy, folder.log_tail(since=logged))

    def _leave(self) -> None:
        self._use.release()
        if is_free(self._folder.lock("users")) and postmaster.is_running(self._folder):
            postmaster.shut_down(self._folder)
