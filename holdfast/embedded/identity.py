"""As whom Postgres runs: it refuses root, and `initdb` wants a uid that has an account.

Postgres runs as the owner of its folder. If that is root, it runs as root without root's
privileges, under another number in a user namespace. Where the kernel forbids that, the folder
(and it alone) is given to `nobody`.
"""

import os
import pwd
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from holdfast.embedded import launch
from holdfast.embedded.errors import PostgresUnavailable
from holdfast.embedded.launch import Identity, Order

NOBODY = 65534
REHEARSAL_SECONDS_MAX = 10.0
LAUNCH_SECONDS_MIN = 5.0  # a launch in the last moment is not cut short
REMEDY = (
    "Run Holdfast as a normal user, or install it and keep its folder where every user may enter "
    "(for example under /opt and /var/lib), or set HOLDFAST_DATABASE_URL."
)


def choose_identity(folder: Path, program: Path) -> Identity:
    """Decide as whom Postgres runs here. May give a folder of root's to `nobody`, for good."""
    owner, uid = folder.stat(), os.geteuid()
    if uid not in (0, owner.st_uid):
        raise PostgresUnavailable(
            f"The folder {folder} belongs to uid {owner.st_uid}, but this process is uid {uid}.",
            f"Run as uid {owner.st_uid}, or name a folder of your own (HOLDFAST_DATA_DIR).",
        )
    change_user = uid != owner.st_uid
    plain = Identity(uid=owner.st_uid, gid=owner.st_gid) if change_user else Identity()
    if owner.st_uid != 0 and _has_account(owner.st_uid):
        return plain
    inside = replace(plain, uid_inside=_some_account())
    refusal = _rehearse(inside, folder, program)
    if refusal is None:
        return inside
    if owner.st_uid != 0:
        return plain  # `initdb` says best what it misses
    return _become_nobody(folder, program, because=refusal)


def run(order: Order, seconds_max: float) -> int:
    """Run an order's program, return its exit code. Raises PostgresUnavailable if refused."""
    answer = _launch([order.to_json()], seconds_max)
    if answer.returncode == launch.EXIT_REFUSED:
        raise PostgresUnavailable(f"Postgres cannot be run: {answer.stderr}.", REMEDY)
    if answer.returncode != 0 and answer.stderr:
        raise PostgresUnavailable("Postgres could not be launched.", REMEDY, answer.stderr)
    return answer.returncode


def _become_nobody(folder: Path, program: Path, *, because: str) -> Identity:
    """Give the folder away, last of all its top, so that an interrupted try is made again."""
    nobody = Identity(uid=NOBODY, gid=NOBODY)
    refusal = _rehearse(nobody, folder, program)
    if refusal is not None:
        problem = f"Postgres cannot run as root, and not otherwise: {because}; {refusal}."
        raise PostgresUnavailable(problem, REMEDY)
    for within, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(within, name), NOBODY, NOBODY, follow_symlinks=False)
    os.chown(folder, NOBODY, NOBODY)
    return nobody


def _rehearse(identity: Identity, folder: Path, program: Path) -> str | None:
    """Return why Postgres could not run under an identity, or None if it could."""
    order = Order([str(program)], identity, str(folder))
    answer = _launch([order.to_json(), "--rehearse"], REHEARSAL_SECONDS_MAX)
    return None if answer.returncode == 0 else answer.stderr


def _launch(arguments: list[str], seconds_max: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", launch.__file__, *arguments]
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=max(seconds_max, LAUNCH_SECONDS_MIN),
        )
    except subprocess.TimeoutExpired as error:
        problem = f"A program of Postgres did not end within {seconds_max:.0f} s."
        raise PostgresUnavailable(problem, "Try again, or allow more time.") from error


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _some_account() -> int:
    return next((uid for uid in range(1, 1000) if _has_account(uid)), NOBODY)
