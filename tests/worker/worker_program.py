"""A worker in small, to be killed: takes a slot, starts a watchdog and a command, and says so.

Told on stdin to `freeze` or to `hog`, it sets a deadline (for `self` or its `group`), and hangs.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.command import RunningProcess
from holdfast.worker.slots import take_slot
from holdfast.worker.watchdog_handle import WatchdogHandle

MARK = "HOLDFAST_WORKER"
HOURS = 36_000.0


def fork() -> int:
    """Fork without exec, as a pool of processes within a function would."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    return child


def spawn(mark: str) -> int:
    """Start a program in a session of its own, as a function would."""
    environment = {**os.environ, MARK: mark}
    return subprocess.Popen(["sleep", "600"], start_new_session=True, env=environment).pid


def hang(how: str) -> None:
    """Stop as a whole, or keep every other thread from running."""
    if how == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        sum(range(10**13))  # one call in C that never lets go of the interpreter


async def work(options: argparse.Namespace) -> None:
    """Start a command, tell the pids, and do what stdin says."""
    slot = take_slot(options.folder / "slots")
    slot.record(WorkerCredential(options.incarnation, uuid4().hex))
    watchdog = WatchdogHandle()
    token, mark = uuid4().hex, uuid4().hex
    watchdog.start(slot.fd, mark=f"{MARK}={mark}")
    attempt = options.folder / options.incarnation
    attempt.mkdir()
    running = await RunningProcess.start(
        ["sh", "-c", options.script],
        environment=dict(os.environ),
        folder=attempt,
        watchdog=watchdog,
        token=token,
        deadline=boot_clock() + HOURS,
        lock_fd=slot.fd,
    )
    told = {
        "slot": slot.number,
        "previous": slot.previous and slot.previous.worker_id,
        "watchdog": watchdog.pid,
    }
    told |= {"command": running.pid, "forked": fork(), "spawned": spawn(mark)}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    how, whose = sys.stdin.readline().split()
    deadline = boot_clock() + 0.2
    if whose == "self":
        watchdog.set_own_deadline(deadline)
    else:
        running.renew(deadline)
    hang(how)


def main() -> None:
    """Read the command line and work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("incarnation")
    parser.add_argument("script")
    asyncio.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
