"""`kill -9`, seen to its end: a process that still dies still holds its locks and its sockets."""

import os
import signal
from contextlib import suppress

import psutil

GONE_SECONDS_MAX = 30


def kill_and_see_gone(*pids: int) -> None:
    """Kill processes without a word, and wait until none of them is there."""
    processes = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            processes.append(psutil.Process(pid))
            os.kill(pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(processes, GONE_SECONDS_MAX)
    assert not alive, f"killed, but still there: {alive}"
