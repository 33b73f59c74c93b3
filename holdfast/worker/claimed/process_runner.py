"""Run attempts in processes of their own: commands, and functions that need a process."""

import asyncio
import logging
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from holdfast.client.transport import Transport
from holdfast.worker.allowing import CallLimit
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.claimed.process_usage import UsageSampler
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.watchdog import PASSES_MAX_AT_END, sweep
from holdfast.worker.running.attempt_outcome import HANDED_BACK, Outcome, name_signal
from holdfast.worker.running.attempt_uids import AttemptUids, list_given
from holdfast.worker.running.command import CannotStart, ProcessEnded, RunningProcess
from holdfast.worker.running.log_shipping import Shipper
from holdfast.worker.running.outcome_file import read_outcome
from holdfast.worker.running.outputs import read_success
from holdfast.worker.running.process_setup import DEVICE_VARIABLES, list_variables, write_call
from holdfast.worker.running.runnable import identify
from holdfast.worker.running.tail import LogTail
from holdfast.worker.running.uncancelled import wait_until_done
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost

log = logging.getLogger("holdfast.processes")
LAST_WORDS_SECONDS_MAX = 2.0


class ProcessRunner:
    """Runs attempts in processes that the watchdog knows, and sends their output to the server."""

    def __init__(
        self,
        folder: Path,
        transport: Transport,
        watchdog: WatchdogHandle,
        *,
        lock_fd: int,
        hides_devices: bool = False,
        uids: AttemptUids | None = None,
    ) -> None:
        self._folder = folder
        self._transport = transport
        self._watchdog = watchdog
        self._lock_fd = lock_fd
        # Beside placed work, which is given the devices of this host one by one.
        self._hidden = DEVICE_VARIABLES if hides_devices else ()
        self._sampler = UsageSampler()
        self._uids = uids

    def clear(self) -> None:
        """Remove what attempts of an earlier worker left: whoever holds the slot knows it gone.

        But for those that are users of their own: they do not hold the slot, and are ended here.
        """
        if uids := list_given(self._folder):
            sweep([], [], uids=uids, passes_max=PASSES_MAX_AT_END)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def run(
        self,
        attempt: Attempt,
        limit: CallLimit | None,
        imports: tuple[str, ...] = (),
        *,
        codec: str | None = None,
    ) -> Outcome:
        """Run the attempt's process and say how it ended; nothing of it is left on return."""
        folder = self._folder / f"{attempt.task_id}.{attempt.number}"
        try:
            # Nobody else's business: the call holds the token of the lease.
            folder.mkdir(mode=0o700, parents=True)
            identity = identify(attempt, self._transport.server)
            argv = write_call(attempt, folder, identity, limit=limit, imports=imports, codec=codec)
            return await self._run(attempt, argv, folder)
        except CannotStart as problem:
            return Outcome("failed", None, str(problem), "PermanentError", "fetch")
        except OSError as error:
            return Outcome("worker_failed", error=f"this worker cannot run it: {error}")
        finally:
            # In a thread, since a command may leave any number of files.
            removal = asyncio.ensure_future(asyncio.to_thread(shutil.rmtree, folder, True))
            await wait_until_done(removal, on_cancel=lambda: None)

    async def _run(self, attempt: Attempt, argv: list[str], folder: Path) -> Outcome:
        starting = asyncio.ensure_future(self._start(attempt, argv, folder))
        # Seen through even if it shall stop: only a process that has begun can be waited for.
        was_cancelled = await wait_until_done(starting, on_cancel=lambda: None)
        process = starting.result()
        attempt.started_at = boot_clock()

        def stop(mode: StopMode) -> None:
            if mode in ("soft", "timeout"):
                process.terminate()
            else:
                process.kill()

        def move_deadline(deadline: float) -> None:
            with suppress(WatchdogLost):  # noticed by the keeper
                process.renew(deadline)

        attempt.on_stop = stop
        attempt.on_renewed = move_deadline
        # A renewal may have come while the process was being started.
        moved_to = 0.0
        while moved_to != attempt.kill_at:
            moved_to = attempt.kill_at
            move_deadline(moved_to)
        if was_cancelled:
            stop(attempt.stop or "hard")
        gone = asyncio.Event()
        shipper = Shipper(
            self._transport,
            *attempt.key,
            token=attempt.lease_token,
            is_lost=lambda: attempt.stop == "lost",
        )
        shipping = asyncio.create_task(shipper.ship(LogTail(folder / "output.log"), gone))
        ending = asyncio.ensure_future(process.wait())
        with self._sampler.measure(process.pid, attempt.usage.note) as usage:
            was_cancelled |= await wait_until_done(ending, on_cancel=process.kill)
        attempt.usage.note_all(usage.total(ending.result().cpu_seconds))
        attempt.on_renewed = None
        gone.set()

        def hurry(mode: StopMode) -> None:
            if mode in ("hard", "lost"):
                asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS_MAX, shipping.cancel)

        # In a drain and after a hard stop, whoever waits for us does not wait for long.
        hurry("hard" if was_cancelled else attempt.stop or "soft")
        attempt.on_stop = hurry
        await wait_until_done(shipping, on_cancel=shipping.cancel)
        if not shipping.cancelled() and (error := shipping.exception()) is not None:
            log.error("output of task %s is lost", attempt.task_id, exc_info=error)
        return _outcome(attempt, ending.result(), folder, was_cancelled=was_cancelled)

    async def _start(self, attempt: Attempt, argv: list[str], folder: Path) -> RunningProcess:
        uids = self._uids
        uid = 0 if uids is None else await asyncio.to_thread(uids.give, folder)
        server = self._transport.server
        variables = list_variables(attempt, folder, server, has_own_uid=uid != 0)
        return await RunningProcess.start(
            argv,
            environment={**variables, **dict.fromkeys(self._hidden, "")},
            folder=folder,
            watchdog=self._watchdog,
            token=str(attempt.lease_token),
            deadline=attempt.kill_at,
            # What is written in the slot is the worker's own.
            lock_fd=None if uid else self._lock_fd,
            uid=uid,
        )


def _outcome(
    attempt: Attempt, ended: ProcessEnded, folder: Path, *, was_cancelled: bool
) -> Outcome:
    """Read how a process ended: from what its function left, or from its exit code."""
    is_function = attempt.job.entrypoint.is_function
    if is_function:
        reported = read_outcome(folder, was_asked_to_stop=attempt.stop is not None)
        if reported is not None:
            return reported
    was_killed = ended.signal == signal.SIGKILL
    if was_killed and was_cancelled and attempt.stop is None:
        return HANDED_BACK
    if was_killed and boot_clock() >= attempt.kill_at:  # by the watchdog, while we were frozen
        return Outcome("worker_failed", error="its lease was running out, so it was killed")
    if ended == ProcessEnded():
        return Outcome("worker_failed", error="the exit status of its process was lost")
    code = ended.exit_code if ended.signal is None else 128 + ended.signal
    text = f"exit code {code}" if ended.signal is None else f"ended by {name_signal(ended.signal)}"
    if attempt.stop is not None and not (code == 0 and attempt.stop == "soft"):
        return Outcome("killed", code, text)
    if code == 0 and not is_function:
        return read_success(folder)
    if code == 0:
        text = "the process ended without an outcome of its function"
    return Outcome("failed", code, text, "TransientError", "exec")
