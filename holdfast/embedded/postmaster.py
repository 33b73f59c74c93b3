"""The server process: launched, waited for, and shut down. The caller holds the transition lock."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.embedded import identity
from holdfast.embedded.errors import PostgresUnavailable
from holdfast.embedded.folder import SOCKET_NAME, Folder
from holdfast.embedded.greeting import takes_connections
from holdfast.embedded.launch import EXIT_LOCK_TAKEN, Order
from holdfast.embedded.locks import find_holder, is_free, turns_until

ORPHAN_GRACE_SECONDS = 2.0
FAST_STOP_SECONDS_MAX = 60.0
IMMEDIATE_STOP_SECONDS_MAX = 20.0
GREETING_SECONDS_MIN = 1.0
GREETING_SECONDS_MAX = 10.0


class StillStarting(PostgresUnavailable):
    """Postgres runs but takes no connections yet; it is left to go on."""


@dataclass(frozen=True)
class PidFile:
    """What a server has written about itself; of worth only while the server lock is held."""

    pid: int
    socket_folder: Path
    is_ready: bool


def find_pid_file(folder: Folder) -> PidFile | None:
    """Read the server's pid file, if it is there and complete."""
    path = folder.cluster / "postmaster.pid"
    try:
        lines = path.read_text(errors="surrogateescape").split("\n")
    except FileNotFoundError:
        return None
    if len(lines) < 5 or not lines[0].strip().isdigit():
        return None
    is_ready = len(lines) >= 8 and lines[7].strip() == "ready"
    return PidFile(int(lines[0]), Path(lines[4]), is_ready)


def is_running(folder: Folder) -> bool:
    """Tell whether any process of a server lives."""
    return not is_free(folder.lock("server"))


def launch_server(
    folder: Folder, binaries: Path, settings: Mapping[str, str], *, deadline: float
) -> None:
    """Launch a server, without waiting until it is ready."""
    _refuse_foreign_server(folder)
    folder.trim_log()
    program, logged = binaries / "postgres", folder.log_size()
    chosen = identity.choose_identity(folder.path, program)
    folder.prepare_socket_folder()
    socket = folder.socket_folder / SOCKET_NAME
    order = Order(
        [str(program), "-D", str(folder.cluster), *_options(settings)],
        chosen,
        str(folder.path),
        log=str(folder.log),
        server_lock=str(folder.lock("server")),
        postmaster_lock=str(folder.lock("postmaster")),
        stale=[str(folder.cluster / "postmaster.pid"), str(socket), f"{socket}.lock"],
    )
    exit_code = identity.run(order, deadline - time.monotonic())
    # A taken lock means that the launch of a killed process came to life: it is as good as ours.
    if exit_code not in (0, EXIT_LOCK_TAKEN):
        problem = f"Launching Postgres in {folder.path} ended with {exit_code}."
        raise PostgresUnavailable(problem, "Try again.", folder.log_tail(since=logged))


def await_ready(folder: Folder, deadline: float) -> bool:
    """Wait until the server answers; False if it died. Raises StillStarting at the deadline."""
    since = time.monotonic()
    for now in turns_until(deadline):
        if not is_running(folder):
            return False
        if find_holder(folder.lock("postmaster")) is None:
            if now - since > ORPHAN_GRACE_SECONDS:
                _kill_orphans(folder)
            continue
        since = now
        written = find_pid_file(folder)
        if written is not None and written.is_ready and _answers(written, deadline - now):
            return True
    raise StillStarting(
        f"Postgres in {folder.path} is still starting (or recovering); it was left to go on.",
        "Start again to join it, with more time if it needs it.",
        folder.log_tail(since=0),
    )


def _answers(written: PidFile, seconds_left: float) -> bool:
    """Tell whether who wrote this takes connections; what cannot be seen from here is believed."""
    path = written.socket_folder / SOCKET_NAME
    patience = min(max(seconds_left, GREETING_SECONDS_MIN), GREETING_SECONDS_MAX)
    return not path.exists() or takes_connections(path, patience)


def shut_down(folder: Folder) -> None:
    """Stop the server, by force if need be. Raises PostgresUnavailable if nothing helps."""
    stages = ((signal.SIGINT, FAST_STOP_SECONDS_MAX), (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS_MAX))
    for order, seconds in stages:
        _signal_postmaster(folder, order)
        since = time.monotonic()
        for now in turns_until(since + seconds):
            if not is_running(folder):
                folder.remove_socket_folder()
                return
            if now - since > ORPHAN_GRACE_SECONDS and not find_holder(folder.lock("postmaster")):
                _kill_orphans(folder)
    problem = f"Postgres in {folder.path} does not stop."
    raise PostgresUnavailable(problem, "Stop it by hand.", folder.log_tail(since=0))


def _signal_postmaster(folder: Folder, order: signal.Signals) -> None:
    pid = find_holder(folder.lock("postmaster"))
    if pid is None:
        return
    try:
        if pid == 0:
            raise PermissionError("its process cannot be seen from here")
        os.kill(pid, order)
    except ProcessLookupError:
        return  # it has just ended
    except PermissionError as error:
        problem = f"Postgres in {folder.path} cannot be stopped from here: {error}"
        raise PostgresUnavailable(problem, "Stop it where it was started.") from error


def _options(settings: Mapping[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        yield from ("-c", f"{name}={value}")


def _refuse_foreign_server(folder: Folder) -> None:
    """Raise PostgresUnavailable if a server without our locks, so not ours, runs on the cluster."""
    written = find_pid_file(folder)
    if written is not None and _works_in(written.pid, folder.cluster):
        raise PostgresUnavailable(
            f"Postgres runs in {folder.cluster} (pid {written.pid}), not started by Holdfast.",
            "Stop it (pg_ctl stop), then start again.",
        )


def _kill_orphans(folder: Folder) -> None:
    """Kill server processes that outlived their postmaster, as one in a long computation does."""
    lock = folder.lock("server").stat()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or not _works_in(int(entry.name), folder.cluster):
            continue
        if any(os.path.samestat(lock, found) for found in _open_files(entry)):
            with suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)


def _works_in(pid: int, cluster: Path) -> bool:
    """Tell whether the process's working folder is the cluster, as every server process's is."""
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", cluster)
    except OSError:  # it is gone, a zombie, or somebody else's
        return False


def _open_files(process: Path) -> Iterator[os.stat_result]:
    with suppress(OSError):  # it is gone
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                yield descriptor.stat()
