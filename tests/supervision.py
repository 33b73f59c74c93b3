"""See to it that nothing outlives a process that runs tests, however it ends.

A request to terminate ends it as Ctrl-C does: fixtures are torn down. Whatever it starts has a mark
in its environment, and a watchdog beside it kills who carries the mark once the process is gone.
"""

import os
import signal
import subprocess
import sys
from uuid import uuid4

from holdfast.worker.processes import watchdog

# Not of the form HOLDFAST_*: those are taken out of the environment of most programs.
MARK_NAME = "TESTS_RUN_BY"


def supervise() -> "subprocess.Popen[bytes]":
    """Begin; gives the watchdog, which ends with this process."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    os.environ[MARK_NAME] = uuid4().hex
    program = [sys.executable, "-I", "-S", watchdog.__file__]
    process = subprocess.Popen(
        [*program, str(os.getpid()), f"{MARK_NAME}={os.environ[MARK_NAME]}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None
    word = process.stdout.read(len(watchdog.READY))
    assert word == watchdog.READY, "the watchdog did not start"
    process.stdout.close()
    return process
