"""Start a shim. It takes a while, so this runs in a thread, and it is seen through once begun."""

import os
import select
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.worker.placed.launcher_handle import Launcher
from holdfast.worker.placed.shim_leftovers import kill_leftovers, read_log_tail
from holdfast.worker.placed.shim_messages import ShimOrder
from holdfast.worker.processes import shim_folder
from holdfast.worker.running.attempt_uids import SHARED_MODE

START_SECONDS_MAX = 30.0
TRIES_MAX = 3
_FIFOS = (shim_folder.CONTROL, shim_folder.ALIVE)


def launch_shim(
    launcher: Launcher, folder: Path, order: ShimOrder, *, inherit: Sequence[int]
) -> None:
    """Start a shim and wait until it holds its lock.

    Raises OSError if this host cannot; then nothing of it is left that could be adopted.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    # What the shim leaves there, a command that is another user can neither read nor take away.
    folder.chmod(SHARED_MODE if order.uid else 0o700)
    order_path = folder / shim_folder.ORDER
    if order_path.exists():
        raise FileExistsError(f"{folder} has held an order before")
    try:
        for name in _FIFOS:
            os.mkfifo(folder / name, 0o600)
        written = {**msgspec.to_builtins(order), "mark": order.mark}
        shim_folder.write_json(str(order_path), written)
        _start(launcher, folder, order, inherit=inherit)
    except OSError:
        for name in (*_FIFOS, shim_folder.ORDER):
            (folder / name).unlink(missing_ok=True)
        raise


def _start(launcher: Launcher, folder: Path, order: ShimOrder, *, inherit: Sequence[int]) -> None:
    alive = os.open(folder / shim_folder.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # Again if it is gone: its launcher may have died with what it was asked.
        for _ in range(TRIES_MAX):
            asked = _ask(launcher, folder, order, inherit=inherit)
            answer = _wait_ready(alive)
            if answer == "ready":
                return
            if answer == "silent":
                # Dead before the sweep: what it has not begun, it never will.
                launcher.end(asked)
                break
    finally:
        os.close(alive)
    kill_leftovers(folder, order.token, order.uid)
    raise OSError(f"the shim did not start: {read_log_tail(folder)}")


def _ask(launcher: Launcher, folder: Path, order: ShimOrder, *, inherit: Sequence[int]) -> int:
    """Ask for the shim; it alone has the other end of `alive` afterwards, if it comes."""
    theirs = os.open(folder / shim_folder.ALIVE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with open(folder / shim_folder.LOG, "ab") as log:
            descriptors = [theirs, log.fileno(), *inherit]
            return launcher.send(order.mark, str(folder.absolute()), descriptors)
    finally:
        os.close(theirs)


def _wait_ready(alive: int) -> str:
    """Wait until a shim is `ready` or `gone`, though it never came; `silent` if that takes long."""
    poller = select.poll()
    poller.register(alive, select.POLLIN)
    if not poller.poll(START_SECONDS_MAX * 1000):
        return "silent"
    return "ready" if os.read(alive, len(shim_folder.READY)) == shim_folder.READY else "gone"
