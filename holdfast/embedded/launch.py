"""Become the user Postgres accepts, take the server's locks, and turn into a Postgres program.

This file is run as a program (`python -I -S launch.py ORDER`), so it knows the standard library
only. It is a process of its own because only a process with one thread may enter a user namespace,
and because code between fork and exec of a threaded server could deadlock.
"""

import ctypes
import fcntl
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

EXIT_LOCK_TAKEN = 75
EXIT_REFUSED = 77
CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4


@dataclass(frozen=True)
class Identity:
    """Whom to become: another user, the same under another number in a namespace, or both."""

    uid: int | None = None
    gid: int | None = None
    uid_inside: int | None = None


@dataclass(frozen=True)
class Order:
    """What to run, as whom, under which locks; a postmaster is detached, anything else is not."""

    command: list[str]
    identity: Identity
    folder: str
    log: str = ""
    server_lock: str = ""
    postmaster_lock: str | None = None
    stale: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Write the order down for the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Order":
        """Read an order from the command line."""
        fields = json.loads(text)
        return cls(**{**fields, "identity": Identity(**fields["identity"])})


class Refusal(Exception):
    """Something stands in the way, told in one sentence."""


def become(identity: Identity) -> None:
    """Take on the identity, for good. Raises Refusal if the kernel does not allow it."""
    try:
        if identity.uid is not None and identity.gid is not None:
            os.setgroups([])
            os.setresgid(identity.gid, identity.gid, identity.gid)
            os.setresuid(identity.uid, identity.uid, identity.uid)
        if identity.uid_inside is not None:
            _enter_namespace(identity.uid_inside)
    except OSError as error:
        raise Refusal(f"the kernel does not allow to drop privileges: {error}") from error


def _enter_namespace(uid_inside: int) -> None:
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    # A process that changed its uid may not write its own maps until it is declared dumpable again.
    if libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 or libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid_inside} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{uid_inside} {gid} 1")


def find_barrier(path: Path) -> Path | None:
    """Find the first folder on the way to a path that this process may not enter."""
    return next((step for step in reversed(path.parents) if not os.access(step, os.X_OK)), None)


def check_reach(order: Order) -> None:
    """Raise Refusal, naming the barrier, unless program and folder can be got at."""
    for path in (Path(order.command[0]), Path(order.folder)):
        barrier = find_barrier(path)
        if barrier is not None:
            raise Refusal(f"{_who(order.identity)} needs {path} but may not enter {barrier}")
    if not os.access(order.command[0], os.R_OK | os.X_OK):
        raise Refusal(f"{_who(order.identity)} may not run {order.command[0]}")


def check_folder(order: Order) -> None:
    """Raise Refusal unless the folder can be written to."""
    if not os.access(order.folder, os.R_OK | os.W_OK | os.X_OK):
        raise Refusal(f"{_who(order.identity)} may not write to {order.folder}")


def _who(identity: Identity) -> str:
    if identity.uid is not None:
        return f"Postgres as uid {identity.uid}"
    if identity.uid_inside is not None:
        return "Postgres without root's privileges"
    return f"Postgres as uid {os.geteuid()}"


def take_server_lock(order: Order) -> bool:
    """Take the lock that the program and all its children hold by inheriting it."""
    descriptor = os.open(order.server_lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    os.set_inheritable(descriptor, True)
    return True


def detach() -> None:
    """Go on in a child that no terminal and no parent owns."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()


def redirect(log: str) -> None:
    """Write everything from here on to the log."""
    target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, standard in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, standard)


def take_postmaster_lock(path: str) -> None:
    """Take the lock that stays with this very process across exec and passes to no child."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.set_inheritable(descriptor, True)


def remove_stale(paths: list[str]) -> None:
    """Remove what a dead server left: where its pid is in use again, Postgres would not start."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def main(text: str, *, rehearse: bool) -> int:
    """Carry an order out, or in rehearsal only find out whether the identity will do."""
    order = Order.from_json(text)
    try:
        become(order.identity)
        check_reach(order)
        if rehearse:
            return 0
        check_folder(order)
    except Refusal as refusal:
        sys.stderr.write(str(refusal))
        return EXIT_REFUSED
    os.umask(0o077)
    os.chdir("/")
    if not take_server_lock(order):
        return EXIT_LOCK_TAKEN
    remove_stale(order.stale)
    if order.postmaster_lock is not None:
        detach()
    redirect(order.log)
    if order.postmaster_lock is not None:
        take_postmaster_lock(order.postmaster_lock)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    os.execve(order.command[0], order.command, variables)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], rehearse="--rehearse" in sys.argv[2:]))
