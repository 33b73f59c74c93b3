"""The worker's handle on the shims of its attempts, whichever worker process started them."""

import asyncio
import fcntl
import json
import math
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from holdfast.errors import Invalid
from holdfast.worker.processes import resource_limits, shim, shim_folder, watchdog
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.watchdog_handle import plain_environment

START_SECONDS_MAX = 30.0
LOOK_SECONDS = 1.0  # the backstop of a wait that is woken by the shim's end
LET_GO_SECONDS = 0.005  # between a shim's end of file and the end of its lock
KILL_SECONDS_MAX = 30.0
OVERDUE_SECONDS = 2.0  # a shim that has not kept its deadline by then is stuck
LOG_BYTES_MAX = 2000
OUTPUT_BYTES_MIN = 4096
_TOKEN = re.compile(r"[0-9A-Za-z_-]{1,128}")

Reason = Literal["lease", "soft", "hard", "oom", "cannot_start", "shim_lost"]


class ShimOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a shim shall run; `note` is the worker's own, given back on adoption."""

    argv: list[str]
    environment: dict[str, str]
    cwd: str
    token: str
    deadline: float
    memory: int = 0
    cpu: float = 0.0
    output_bytes_max: int = 64 * 2**20
    cgroups: bool = True
    note: dict[str, Any] = {}


class ShimUsage(msgspec.Struct, frozen=True):
    """What a command has used, with all that came of it."""

    cpu_seconds: float
    memory_peak_bytes: int
    processes_max: int


class ShimExit(msgspec.Struct, frozen=True):
    """How a command ended; nothing of it is left. Times are seconds since 1970.

    `limits` is cgroup2, rlimit or none, and says so if the cpu is not limited as asked.
    """

    exit_code: int | None
    signal: int | None
    reason: Reason | None
    error: str | None
    started_at: float | None
    ended_at: float
    usage: ShimUsage | None
    limits: str


class _Started(msgspec.Struct):
    started_at: float
    limits: str


class Shim:
    """A shim, its command and their folder. One event loop owns it."""

    def __init__(self, folder: Path, order: ShimOrder, *, child: int | None) -> None:
        self.folder = folder
        self.token = order.token
        self.note = order.note
        self._child = child  # not reaped yet, so the number is its own
        self._overdue_at = math.inf  # of an adopted one we do not know

    @classmethod
    async def start(cls, folder: Path, order: ShimOrder, inherit: Sequence[int] = ()) -> Self:
        """Start a command under a shim, which keeps the descriptors; it outlives this process.

        Raises OSError if this host cannot. What hinders the command itself is told by `wait`. If
        cancelled, the shim may have been started: adopt the folder.
        """
        _check(order)
        child = await asyncio.to_thread(_launch, folder, order, inherit)
        started = cls(folder, order, child=child)
        started._expect(order.deadline)
        return started

    @classmethod
    def adopt(cls, folder: Path) -> Self:
        """Take over a shim of another worker process: alive, ended or killed."""
        try:
            # Not by msgspec alone: names and values of an environment need not be Unicode.
            order = msgspec.convert(
                json.loads((folder / shim_folder.ORDER).read_bytes()), ShimOrder
            )
            _check(order)
        except (OSError, ValueError) as error:
            raise Invalid("folder", f"{folder} holds no order of a shim: {error}") from error
        return cls(folder, order, child=None)

    def is_alive(self) -> bool:
        """Tell whether the shim runs: it holds its lock to its end."""
        with self._locked(fcntl.LOCK_SH) as is_had:
            return not is_had

    def has_started(self) -> bool:
        """Tell whether the command runs or ran."""
        return (self.folder / shim_folder.STARTED).exists()

    def renew(self, deadline: float) -> None:
        """Move the deadline at which the shim kills the command."""
        if not math.isfinite(deadline):
            raise Invalid("deadline", f"{deadline} is not a time of the boot clock")
        self._expect(deadline)
        self._tell(f"deadline {deadline:.6f}")

    def soft(self, grace: float) -> None:
        """Ask the command to end, and have it killed when the grace is over; the first counts."""
        if not 0 <= grace < math.inf:
            raise Invalid("grace", f"{grace} is not a number of seconds")
        self._tell(f"soft {grace:.6f}")

    def hard(self) -> None:
        """Have the command killed at once; a shim that is stuck is swept away after a while."""
        self._overdue_at = min(self._overdue_at, boot_clock() + KILL_SECONDS_MAX)
        self._tell("hard")

    async def wait(self) -> ShimExit:
        """Wait until nothing of the command is left, and tell how it ended.

        What a shim leaves that was killed, or that is stuck past its deadline, is ended here.
        """
        while True:
            if not self.is_alive():
                ended = await asyncio.to_thread(self._find_end)
                if ended is not None:
                    return ended
            elif boot_clock() >= self._overdue_at:
                await asyncio.to_thread(_sweep, self.folder, self.token)
            await self._wait_hang_up()

    def remove(self) -> None:
        """Delete the folder of a shim that has ended."""
        assert not self.is_alive(), "a shim that runs needs its folder"
        (self.folder / shim_folder.ORDER).unlink(missing_ok=True)  # first: half a folder is no shim
        for place, names, _ in os.walk(self.folder):
            for name in names:  # a command may have forbidden us to look inside
                if not os.path.islink(path := os.path.join(place, name)):
                    os.chmod(path, 0o700)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _expect(self, deadline: float) -> None:
        self._overdue_at = max(deadline, boot_clock()) + OVERDUE_SECONDS

    def _tell(self, line: str) -> None:
        # No reader: it has ended. No room: it is stuck, and killed when it is overdue.
        with suppress(OSError):
            control = os.open(self.folder / shim_folder.CONTROL, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(control, line.encode() + b"\n")  # shorter than PIPE_BUF: all or nothing
            finally:
                os.close(control)

    @contextmanager
    def _locked(self, mode: int) -> Iterator[bool]:
        """Try to have the shim's lock for a moment; also had if there is no lock any more."""
        try:
            lock = os.open(self.folder / shim_folder.LOCK, os.O_RDONLY | os.O_CREAT, 0o600)
        except FileNotFoundError:
            yield True
            return
        try:
            try:
                fcntl.flock(lock, mode | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)

    async def _wait_hang_up(self) -> None:
        """Wait for the shim's end, but not for long."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        try:
            alive = os.open(self.folder / shim_folder.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            await asyncio.sleep(LOOK_SECONDS)
            return

        def look() -> None:
            with suppress(BlockingIOError):
                if not os.read(alive, len(shim_folder.READY)):
                    loop.remove_reader(alive)
                    gone.set()

        loop.add_reader(alive, look)
        try:
            look()  # an end before we opened it wakes nobody
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), LOOK_SECONDS)
                await asyncio.sleep(LET_GO_SECONDS)
        finally:
            loop.remove_reader(alive)
            os.close(alive)

    def _find_end(self) -> ShimExit | None:
        """Read how the command ended, or end what is left of it; None if it is not gone yet."""
        path = self.folder / shim_folder.EXIT
        # Held while the end is written down: a shim that comes too late finds it and goes away.
        with self._locked(fcntl.LOCK_EX) as is_had:
            if not is_had:
                return None
            if not path.exists():
                if not _sweep(self.folder, self.token):
                    return None
                with suppress(OSError):  # no room, or no folder any more: we know it all the same
                    shim_folder.write_json(
                        str(path), msgspec.to_builtins(self._lost()), is_synced=True
                    )
            self._reap()
            try:
                return msgspec.json.decode(path.read_bytes(), type=ShimExit)
            except (FileNotFoundError, msgspec.MsgspecError):  # spoiled by the command
                return self._lost()

    def _lost(self) -> ShimExit:
        started = _Started(0.0, "none")
        with suppress(OSError, msgspec.MsgspecError):
            text = (self.folder / shim_folder.STARTED).read_bytes()
            started = msgspec.json.decode(text, type=_Started)
        words = _last_words(self.folder)
        return ShimExit(
            exit_code=None,
            signal=None,
            reason="shim_lost",
            error="its shim was lost, so it was killed" + (f": {words}" if words else ""),
            started_at=started.started_at or None,
            ended_at=time.time(),
            usage=None,
            limits=started.limits,
        )

    def _reap(self) -> None:
        if self._child is not None:
            with suppress(ChildProcessError):
                os.waitpid(self._child, 0)
            self._child = None


def list_shims(folder: Path) -> list[Path]:
    """List the folders below one that hold an order: their shims may run, have ended or be lost."""
    return sorted(path.parent for path in folder.glob(f"*/{shim_folder.ORDER}"))


def _check(order: ShimOrder) -> None:
    if not _TOKEN.fullmatch(order.token):
        raise Invalid("token", "is not one word of at most 128 letters, digits, - and _")
    if not math.isfinite(order.deadline):
        raise Invalid("deadline", f"{order.deadline} is not a time of the boot clock")
    if not 0 <= order.memory < 2**62:
        raise Invalid("memory", f"{order.memory} is not a number of bytes")
    if not 0 <= order.cpu < 2**20:
        raise Invalid("cpu", f"{order.cpu} is not a number of cores")
    if order.output_bytes_max < OUTPUT_BYTES_MIN:
        raise Invalid("output_bytes_max", f"must be at least {OUTPUT_BYTES_MIN}")


def _launch(folder: Path, order: ShimOrder, inherit: Sequence[int]) -> int:
    """Start a shim and wait until it holds its lock; returns its number, which we have to reap."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    if (folder / shim_folder.ORDER).exists():
        raise FileExistsError(f"{folder} has held an order before")
    try:
        for name in (shim_folder.CONTROL, shim_folder.ALIVE):
            os.mkfifo(folder / name, 0o600)
        shim_folder.write_json(str(folder / shim_folder.ORDER), msgspec.to_builtins(order))
        child = _spawn(folder, order.token, inherit)
    except OSError:
        for name in (
            shim_folder.CONTROL,
            shim_folder.ALIVE,
            shim_folder.ORDER,
        ):
            (folder / name).unlink(missing_ok=True)  # there is nothing to adopt
        raise
    return child


def _spawn(folder: Path, token: str, inherit: Sequence[int]) -> int:
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
                env={**plain_environment(), watchdog.TOKEN_NAME: token},
            )
        process.returncode = 0  # or Popen would complain of a process left running
        if _wait_ready(alive, process.pid):
            return process.pid
    finally:
        os.close(alive)
    _sweep(folder, token)
    os.waitpid(process.pid, 0)
    raise OSError(f"the shim did not start: {_last_words(folder)}")


def _wait_ready(alive: int, child: int) -> bool:
    """Wait for a shim's first word, or for its end."""
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


def _sweep(folder: Path, token: str) -> bool:
    """Kill all that carries a token, its shim too; False if that takes more than a moment."""
    own = resource_limits.find_own_cgroup()
    # Where its shim would have made it, should the command have deleted what the shim has written.
    cgroups = [] if own is None else [resource_limits.path_of(own, token)]
    with suppress(OSError, msgspec.MsgspecError):
        text = (folder / shim_folder.CGROUP).read_bytes()
        if (made := msgspec.json.decode(text, type=str | None)) is not None:
            cgroups.append(made)
    is_clean = watchdog.sweep([], [watchdog.mark_of(token)])
    are_ended = [resource_limits.end_cgroup(cgroup) for cgroup in cgroups]
    return is_clean and all(are_ended)


def _last_words(folder: Path) -> str:
    with suppress(OSError), open(folder / shim_folder.LOG, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - LOG_BYTES_MAX))
        return file.read().decode("utf-8", "replace").strip()
    return ""
