"""Kill a worker that overruns its deadline, and its processes when they overrun or outlive it.

Run as a program (`python -I -S watchdog.py WORKER_PID [ENTRY]`), so it knows the standard library
only, and as little of it as it can: there is one beside every worker. Lines on its stdin:

    self DEADLINE|never          the worker itself must be dead by then
    group PGID MARK UID DEADLINE this process group, and whoever carries the mark, by then; and
                                 all of that uid, unless it is 0: the attempt has it for itself
    forget PGID                  the group has ended
    stop                         the worker needs no watchdog any more

After `stop`, the end of input or the worker's death it kills every group it knows, and exits when
none is left. A deadline is in seconds of `holdfast.worker.processes.clock`.

Groups are not enough: a grandchild may have left for a session of its own. So every process whose
environment holds a known mark (or ENTRY, some NAME=VALUE) is killed too, and every process
that the worker forked without exec, which still holds the worker's end of our stdin.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Collection

TOKEN_NAME = "HOLDFAST_LEASE_TOKEN"
MARK_NAME = "HOLDFAST_MARK"
READY = b"ready\n"
OVERRUN = b"holdfast: killed the worker: code within it has outlived its time\n"
NEVER = float("inf")
# Poll counts no time in suspend: a deadline that passed there is met this long after waking up.
SLICE_SECONDS = 1.0
PASSES_CLEAN = 2  # one pass can miss a process in the middle of an exec
PASSES_MAX = 8  # with the pauses half a second: another deadline may be near
PASSES_MAX_AT_END = 600  # with the pauses ten minutes: by then the leases have run out anyway
YOUNGER_MAX = 256  # beyond, looking at each number costs more than reading which there are
PAUSE_SECONDS = 0.002
PAUSE_SECONDS_MAX = 1.0
PIPE_BYTES_MAX = 1 << 20
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def entry_of(mark: str) -> bytes:
    """Write the entry by which the environment of an attempt's processes is known."""
    return f"{MARK_NAME}={mark}".encode()


def kill_group(pgid: int) -> None:
    """Kill a process group if it is still there."""
    if pgid <= 1:  # 1 would mean every process of the machine, 0 our own group
        raise ValueError(pgid)
    try:
        os.killpg(pgid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def sweep(
    groups: Collection[int],
    entries: Collection[bytes],
    *,
    uids: Collection[int] = (),
    pipe: str | None = None,
    passes_max: int = PASSES_MAX,
    after: int = 0,
) -> bool:
    """Kill groups, carriers of entries, and all of a uid; False if some do not die in time.

    With a pipe, whoever holds that, too. `after` the start of a process of that number, if nothing
    older can be meant: then most of /proc need not be read.
    """
    assert 0 not in uids, "root is nobody's own uid"
    clean = 0
    pause = PAUSE_SECONDS
    for _ in range(passes_max):
        for pgid in groups:
            kill_group(pgid)
        clean = 0 if _kill_marked(entries, uids, pipe, after=after) else clean + 1
        if clean == PASSES_CLEAN:
            return True
        time.sleep(pause)
        pause = PAUSE_SECONDS if clean else min(pause * 2, PAUSE_SECONDS_MAX)
    return False


def _kill_marked(
    entries: Collection[bytes], uids: Collection[int], pipe: str | None, *, after: int
) -> int:
    spared = {os.getpid(), os.getppid()}
    killed = 0
    for name in _list_younger(after) if after else os.listdir("/proc"):
        if not name.isdigit() or int(name) in spared:
            continue
        if (
            _carries(name, entries)
            or (uids and _is_of(name, uids))
            or (pipe and _holds(name, pipe))
        ):
            try:
                os.kill(int(name), signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
            killed += 1
    return killed


def _list_younger(pid: int) -> Collection[str]:
    """List at least the processes that were started after one that was started lately."""
    with open("/proc/loadavg", "rb") as file:
        last = int(file.read().split()[-1])  # the number that was given out last
    if pid <= last < pid + YOUNGER_MAX:
        return [str(number) for number in range(pid + 1, last + 1)]
    names = os.listdir("/proc")
    if last < pid:  # the numbers have begun anew
        return names
    return [name for name in names if name.isdigit() and int(name) > pid]


def _carries(name: str, entries: Collection[bytes]) -> bool:
    try:
        with open(f"/proc/{name}/environ", "rb", buffering=0) as file:
            environment = file.readall()
    except OSError:  # gone, or a stranger's
        return False
    return bool(environment) and not set(entries).isdisjoint(environment.split(b"\0"))


def _is_of(name: str, uids: Collection[int]) -> bool:
    """Tell whether a living process is of one of these; its environment may be closed to root."""
    try:
        with open(f"/proc/{name}/status", "rb", buffering=0) as file:
            lines = file.readall().split(b"\n")
    except OSError:  # gone
        return False
    fields = {line.partition(b":")[0]: line.split()[1:] for line in lines if line}
    if not fields.get(b"State") or fields[b"State"][0] in (b"Z", b"X"):
        return False
    return not set(uids).isdisjoint(map(int, fields[b"Uid"]))


def _holds(name: str, pipe: str) -> bool:
    folder = f"/proc/{name}/fd"
    try:
        return any(_link(f"{folder}/{fd}") == pipe for fd in os.listdir(folder))
    except OSError:
        return False


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return None


def _complain(text: bytes) -> None:
    try:
        os.write(2, text)
    except OSError:  # nobody hears it
        return


class Watchdog:
    """The deadlines that the worker has set so far, and what follows from them."""

    def __init__(self, entries: Collection[bytes]) -> None:
        self._entries = set(entries)
        self._self_deadline = NEVER
        self._groups: dict[int, tuple[str, int, float]] = {}
        self._rest = b""

    def serve(self, worker: int) -> None:
        """Obey and keep the deadlines until the worker (a pidfd) stops or is gone."""
        poller = select.poll()
        poller.register(0, select.POLLIN)
        poller.register(worker, select.POLLIN)
        while True:
            ready = poller.poll(self._patience_ms())
            is_open = self._read()  # after the poll: nothing that a dead worker wrote is missed
            if not is_open or any(fd == worker for fd, _ in ready):
                return
            self._keep_deadlines(worker)

    def end(self) -> None:
        """Kill all that is known, until none is left."""
        self._read()
        entries = self._entries | {entry_of(mark) for mark, _, _ in self._groups.values()}
        pipe = os.readlink("/proc/self/fd/0")
        assert pipe.startswith("pipe:"), pipe  # a terminal or /dev/null has holders everywhere
        uids = {uid for _, uid, _ in self._groups.values() if uid}
        sweep(self._groups, entries, uids=uids, pipe=pipe, passes_max=PASSES_MAX_AT_END)

    def _patience_ms(self) -> float | None:
        first = min([self._self_deadline, *(deadline for *_, deadline in self._groups.values())])
        if first == NEVER:
            return None
        left = first - time.clock_gettime(_CLOCK)
        return max(0.0, min(left, SLICE_SECONDS)) * 1000

    def _read(self) -> bool:
        """Obey what has arrived; False when no more will."""
        try:
            text = os.read(0, PIPE_BYTES_MAX)  # one read empties the pipe
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + text).split(b"\n")
        return bool(text) and all(self._obey(line.decode()) for line in lines)

    def _obey(self, line: str) -> bool:
        match line.split():
            case ["self", deadline]:
                self._self_deadline = NEVER if deadline == "never" else float(deadline)
            case ["group", pgid, mark, uid, deadline] if int(pgid) > 1 and int(uid) >= 0:
                self._groups[int(pgid)] = (mark, int(uid), float(deadline))
            case ["forget", pgid]:
                self._groups.pop(int(pgid), None)
            case ["stop"]:
                return False
            case _:
                raise ValueError(line)
        return True

    def _keep_deadlines(self, worker: int) -> None:
        now = time.clock_gettime(_CLOCK)
        if self._self_deadline <= now:
            self._self_deadline = NEVER
            signal.pidfd_send_signal(worker, signal.SIGKILL)  # its end wakes the poll
            _complain(OVERRUN)
        due = {pgid: group for pgid, group in self._groups.items() if group[-1] <= now}
        if not due:
            return
        entries = [entry_of(mark) for mark, _, _ in due.values()]
        is_clean = sweep(due, entries, uids={uid for _, uid, _ in due.values() if uid})
        for pgid, (mark, uid, _) in due.items():
            if is_clean:
                del self._groups[pgid]
            else:
                self._groups[pgid] = (mark, uid, now + SLICE_SECONDS)


def main(worker_pid: int, entries: Collection[bytes]) -> None:
    """Serve one worker to its end, and see to its processes whatever happens."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.set_blocking(0, False)
    watchdog = Watchdog(entries)
    try:
        worker = os.pidfd_open(worker_pid)
        if os.getppid() == worker_pid:  # otherwise the number may be a stranger's by now
            os.write(1, READY)
            os.close(1)
            watchdog.serve(worker)
    except (ProcessLookupError, BrokenPipeError):  # it died before we were there
        pass
    finally:
        watchdog.end()


if __name__ == "__main__":
    main(int(sys.argv[1]), [entry.encode() for entry in sys.argv[2:]])
