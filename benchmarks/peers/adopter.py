"""Run a daemon, and be the parent of all that it leaves behind, until it is to end.

    python -I -S adopter.py PARENT COMMAND...

What a daemon starts apart from itself (Slurm's step managers) comes to us when its parent ends. So
its CPU time can be read here, and none of it outlives us; and we end with the benchmark, however
that ends.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ROUNDS_MAX = 1000


def kill_all_below() -> None:
    """Kill what runs below us, and what comes to us by that, until nothing is left."""
    for _ in range(ROUNDS_MAX):
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = [int(pid) for pid in file.read().split()]
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main(parent: int, command: list[str]) -> None:
    """Run the command; reap until we are told to end."""
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((PR_SET_PDEATHSIG, signal.SIGTERM), (PR_SET_CHILD_SUBREAPER, 1)):
        if libc.prctl(option, int(value), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    ended = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, {*ended, signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*ended, signal.SIGCHLD})
        os.execvp(command[0], command)
    while os.getppid() == parent and signal.sigwait({*ended, signal.SIGCHLD}) not in ended:
        gone = -1
        while gone not in (0, pid):
            gone, _ = os.waitpid(-1, os.WNOHANG)
        if gone == pid:
            break
    kill_all_below()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
