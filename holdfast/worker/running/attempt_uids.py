"""Users of their own for attempts: the kernel keeps what one has from all the others.

A worker that runs as root gives each attempt in a process a number of a range that nobody else
uses. Who has which number stands on this host in one folder, for all workers: a link by the name
of the number leads to the attempt's folder, and as long as that is there, the number is taken. So
it is given back with the last file of the attempt, however its worker has ended.

The attempt's folder stays root's. Its user may add files there, and takes away only its own.
"""

import fcntl
import os
import pwd
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from holdfast.errors import Invalid
from holdfast.worker.running.child import CALL_FILE
from holdfast.worker.watchdog_handle import plain_environment

GIVEN = Path("/run/holdfast/attempt-uids")
UID_MIN, UID_MAX = 1000, 2**31 - 1
# Others enter neither; its group, which is its user alone, adds files.
SHARED_MODE = 0o1770
PASSABLE = 0o711
_HARDLINKS = Path("/proc/sys/fs/protected_hardlinks")
_PROBE_SECONDS_MAX = 60.0


class AttemptUids:
    """A range of uids that attempts get, each one at a time."""

    def __init__(self, first: int, last: int) -> None:
        self._uids = range(first, last + 1)

    @classmethod
    def read(cls, text: str) -> "AttemptUids":
        """Read a range, FIRST-LAST. Raises Invalid, also where it cannot be used."""
        first, sign, last = text.partition("-")
        if not (sign and first.isdecimal() and last.isdecimal()):
            raise Invalid("attempt_uids", f"{text!r} is no range; write 200000-265535")
        if not UID_MIN <= int(first) <= int(last) <= UID_MAX:
            raise Invalid("attempt_uids", f"{text!r} is not within {UID_MIN}-{UID_MAX}")
        if os.geteuid() != 0:
            raise Invalid("attempt_uids", "needs root: no other user can start processes of others")
        for account in pwd.getpwall():
            if int(first) <= account.pw_uid <= int(last):
                taken = f"{account.pw_uid} is the account {account.pw_name}"
                raise Invalid("attempt_uids", f"{taken}; choose a range that nobody uses")
        if _HARDLINKS.read_text().strip() == "0":
            remedy = "sysctl fs.protected_hardlinks=1"
            raise Invalid("attempt_uids", f"users can link files of root's here; {remedy}")
        return cls(int(first), int(last))

    def give(self, folder: Path) -> int:
        """Give the folder of an attempt a user of its own. Raises OSError if there is none."""
        with _one_at_a_time():
            uid = self._find_free()
            (GIVEN / str(uid)).symlink_to(folder.absolute())
        _hand_over(folder, uid)
        return uid

    def check_python(self) -> None:
        """Refuse to begin where an attempt's user could not run functions. Raises Invalid."""
        uid, paths = self._uids[0], map(os.path.abspath, sys.path)
        try:
            subprocess.run(
                [sys.executable, "-c", "import holdfast.worker.running.child"],
                env={**plain_environment(), "PYTHONPATH": os.pathsep.join(paths)},
                cwd="/",
                user=uid,
                group=uid,
                extra_groups=(),
                check=True,
                capture_output=True,
                text=True,
                timeout=_PROBE_SECONDS_MAX,
            )
        except OSError as error:
            raise _no_python(f"{sys.executable}: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            raise _no_python(error.stderr.strip().rpartition("\n")[2]) from error
        except subprocess.TimeoutExpired as error:
            raise _no_python("Python does not start in time") from error

    def _find_free(self) -> int:
        """Find a number that no attempt has and no process runs under."""
        # From anywhere: what one attempt has left in /tmp should not wait there for the next one.
        begin = random.randrange(len(self._uids))
        busy = set(_list_busy())
        for uid in chain(self._uids[begin:], self._uids[:begin]):
            link = GIVEN / str(uid)
            if uid not in busy and not link.exists():
                link.unlink(missing_ok=True)
                return uid
        raise OSError(f"all {len(self._uids)} uids for attempts are taken; use a larger range")


def list_given(folder: Path) -> set[int]:
    """List the users that were given to attempts with folders below a folder, if it is there.

    A group alone proves nothing, since a folder may have it from its parent: only the link that
    leads to the folder says that the number was given to this attempt.
    """
    if os.geteuid() != 0 or not folder.exists():
        return set()
    groups = [(path, path.lstat().st_gid) for path in folder.iterdir()]
    return {gid for path, gid in groups if (GIVEN / str(gid)).resolve() == path.resolve()}


def open_way(folder: Path, top: Path) -> None:
    """Let other users pass through folders of ours, to what is theirs below. Raises Invalid."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder, top = folder.resolve(), top.resolve()
    assert folder.is_relative_to(top), (folder, top)
    for path in (folder, *folder.parents):
        if path.is_relative_to(top):
            path.chmod(PASSABLE)
        elif not path.stat().st_mode & 0o001:
            remedy = f"set HOLDFAST_WORKER_DIR to a folder elsewhere, or chmod o+x {path}"
            raise Invalid("attempt_uids", f"other users cannot enter {path}; {remedy}")


def _hand_over(folder: Path, uid: int) -> None:
    """Make an attempt's folder, before anything of it runs, one in which its user can work."""
    work, output = folder / "work", folder / "output.log"
    work.mkdir(exist_ok=True)
    output.touch(mode=0o600)
    for path, mode in (
        (output, 0o660),
        (folder / "input.json", 0o640),
        (folder / CALL_FILE, 0o640),
    ):
        if path.exists():
            os.chown(path, 0, uid)
            path.chmod(mode)
    os.chown(work, uid, uid)
    for within, folders, files in os.walk(work):
        for name in (*folders, *files):
            os.lchown(os.path.join(within, name), uid, uid)
    work.chmod(0o700)
    os.chown(folder, 0, uid)
    folder.chmod(SHARED_MODE)  # last, since a change of the owner may take modes away
    folder.parent.chmod(PASSABLE)  # which may have been made anew since the way was opened


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keep other workers of this host from choosing, for a block."""
    GIVEN.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(GIVEN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _list_busy() -> Iterator[int]:
    """List the uids of all processes of this host."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                # Bytes, since a process may be called anything; the kernel escapes its newlines.
                lines = Path(f"/proc/{name}/status").read_bytes().split(b"\n")
            except OSError:  # gone
                continue
            [uids] = [line for line in lines if line.startswith(b"Uid:")]
            yield from map(int, uids.split()[1:])


def _no_python(problem: str) -> Invalid:
    remedy = "install Python and Holdfast where all users can read them"
    return Invalid("attempt_uids", f"other users cannot run functions here: {problem}; {remedy}")
