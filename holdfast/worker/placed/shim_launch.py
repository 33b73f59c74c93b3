"""Start a shim. It takes a while, so this runs in a thread, and it is seen through once begun."""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.worker.placed.shim_leftovers import kill_leftovers, read_log_tail
from holdfast.worker.placed.shim_messages import ShimOrder
from holdfast.worker.processes import shim, shim_folder, watchdog
from holdfast.worker.running.attempt_uids import SHARED_MODE
from holdfast.worker.watchdog_handle import plain_environment

START_SECONDS_MAX = 30.0
_FIFOS = (shim_folder.CONTROL, shim_folder.ALIVE)


def launch_shim(folder: Path, order: ShimOrder, inherit: Sequence[int]) -> int:
    """Start a shim and wait until it holds its lock; returns its pid, which we have to reap.

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
        return _start(folder, order, inherit)
    except OSError:
        for name in (*_FIFOS, shim_folder.ORDER):
            (folder / name).unlink(missing_ok=True)
        raise


def _start(folder: Path, order: ShimOrder, inherit: Sequence[int]) -> int:
    alive = os.open(folder / shim_folder.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open(folder / shim_folder.LOG, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", shim.__file__, str(folder.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=inherit,
                start_new_session=True,
                cwd="/",
                env={**plain_environment(), watchdog.MARK_NAME: order.mark},
            )
        process.returncode = 0  # or Popen would complain of a process left running
        if _wait_ready(alive, process.pid):
            return process.pid
    finally:
        os.close(alive)
    kill_leftovers(folder, order.token, order.uid)
    os.waitpid(process.pid, 0)
    raise OSError(f"the shim did not start: {read_log_tail(folder)}")


def _wait_ready(alive: int, child: int) -> bool:
    """Wait until a shim is ready, or has ended."""
    pidfd = os.pidfd_open(child)
    try:
        poller = select.poll()
        poller.register(alive, select.POLLIN)
        poller.register(pidfd, select.POLLIN)
        poller.poll(START_SECONDS_MAX * 1000)
        return os.read(alive, len(shim_folder.READY)) == shim_folder.READY
    except BlockingIOError:
        return False
    finally:
        os.close(pidfd)
