"""The supervisor of one worker: a process that runs no user code, and so outlives its crashes.

    supervisor ── fork ──► the worker's process: user code, threads, loops
        ▲                     │ notes what runs in it (`holdfast.worker.running_code`)
        └──── its end ────────┘

An end by its own will (drained, replaced, wrong settings) is the end of both, with the same code.
Any other is logged, and the worker is started again, after a pause that grows with each crash. It
is told of the crash, and proves to the server that its predecessor is gone.
"""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.cli.core_files import forbid_core_files
from holdfast.errors import HoldfastError
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running_code import RunningCode
from holdfast.worker.watchdog_handle import WatchdogLost

log = logging.getLogger("holdfast.supervisor")
PAUSE_SECONDS = 0.25
# Less than the ten seconds within which a worker finds its placed work still running.
PAUSE_SECONDS_MAX = 8.0
LIVED_WELL_SECONDS = 60.0
NAMED_MAX = 5
# A service manager may signal all processes of a worker, or one of them by several signals.
REPEAT_SECONDS = 1.0
_ASKED_TO_END = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Crash(NamedTuple):
    """How an incarnation of this worker ended, though nobody had asked it to.

    It had registered for queues, for placed work, or for both; an id that it had not is empty.
    """

    worker_id: str
    placed_id: str
    cause: str


def supervise(work: Callable[[RunningCode, Crash | None], int]) -> int:
    """Fork a process that does the work, and again when it has crashed; returns its exit code.

    In that process it returns, or raises, what the work does.
    """
    forbid_core_files()
    crash: Crash | None = None
    pause = PAUSE_SECONDS
    parent = os.getpid()
    # Signals are taken one by one, where they are waited for: none can fall between two steps.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ASKED_TO_END, signal.SIGCHLD})
    try:
        while True:
            code = RunningCode()
            started_at = time.monotonic()
            child = os.fork()
            if child == 0:
                _begin_child(parent, before)
                return _work(work, code, crash)
            status, asked_by = _see_to_end(child)
            if code.has_left:
                return _exit_code(status)
            if asked_by is not None and _exit_code(status) == 128 + signal.SIGTERM:
                return 128 + asked_by  # before it could drain: there the request interrupts it
            cause = describe_end(status, code)
            crash = _follow(crash, code, cause)
            if asked_by is not None or not (crash.worker_id or crash.placed_id):
                log.critical("the worker's process has ended: %s", cause)
                return _exit_code(status) or 1
            if time.monotonic() - started_at >= LIVED_WELL_SECONDS:
                pause = PAUSE_SECONDS
            log.critical(
                "the worker's process has ended: %s; it is started again in %g s", cause, pause
            )
            if signal.sigtimedwait(_ASKED_TO_END, pause) is not None:
                return 0
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
    finally:
        if os.getpid() == parent:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when the process that started it has died."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def describe_end(status: int, code: RunningCode) -> str:
    """Tell how a process ended, by its exit code or signal, and what ran in it then."""
    overrun = code.find_overrun(boot_clock())
    if os.WIFSIGNALED(status):
        how = _name_signal(os.WTERMSIG(status))
        if overrun is not None and os.WTERMSIG(status) == signal.SIGKILL:
            how = f"killed by its watchdog, since {overrun}"
    else:
        how = f"exit code {os.WEXITSTATUS(status)}"
    running = code.list_running()
    if not running:
        return f"{how}, while no function ran in it"
    more = len(running) - NAMED_MAX
    named = ", ".join(running[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{how}, while it ran {named}"


def is_accident(error: BaseException) -> bool:
    """Tell whether a worker that ends by an error is started again: it did not mean to end."""
    return isinstance(error, WatchdogLost) or not isinstance(error, HoldfastError)


def _follow(earlier: Crash | None, code: RunningCode, cause: str) -> Crash:
    """Say whom the next process replaces: what had not registered again has left nothing new."""
    before = earlier or Crash("", "", cause)
    return Crash(
        code.worker_id or before.worker_id,
        code.placed_id or before.placed_id,
        cause if code.worker_id or code.placed_id else before.cause,
    )


def _name_signal(number: int) -> str:
    """Name a signal; most of those for real time have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _begin_child(parent: int, mask: "set[signal.Signals | int]") -> None:
    """Lead a session of its own, so that Ctrl-C reaches the supervisor alone; die with it."""
    os.setsid()
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _work(
    work: Callable[[RunningCode, Crash | None], int], code: RunningCode, crash: Crash | None
) -> int:
    """Do the work, and note that what it comes to is meant, unless it is an accident."""
    try:
        answer = work(code, crash)
    except HoldfastError as error:
        if not is_accident(error):
            code.leave()
        raise
    code.leave()
    return answer


def _see_to_end(child: int) -> tuple[int, int | None]:
    """Wait for the end of a process, and pass on requests to end; returns the first of them.

    That goes as SIGTERM, to drain, and later ones as SIGINT, which does not wait. So a SIGTERM that
    the process itself was sent beside ours is no second request.
    """
    asked_by: int | None = None
    asked_at = 0.0
    while True:
        received = signal.sigwait({*_ASKED_TO_END, signal.SIGCHLD})
        is_first = asked_by is None
        if received != signal.SIGCHLD and is_first:
            asked_by, asked_at = received, time.monotonic()
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, asked_by
        if received == signal.SIGCHLD:
            continue
        if is_first:
            os.kill(child, signal.SIGTERM)
        elif time.monotonic() - asked_at >= REPEAT_SECONDS:
            os.kill(child, signal.SIGINT)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
