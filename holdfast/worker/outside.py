"""Run attempts in processes of their own: commands, and functions that need a process."""

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.wire.answers import LogAppendAnswer
from holdfast.wire.requests import LogAppendRequest
from holdfast.worker.attempt import Attempt, StopMode
from holdfast.worker.child import CALL_FILE, OUTCOME_FILE, ChildCall
from holdfast.worker.clock import boot_clock
from holdfast.worker.command import CannotStart, ProcessEnded, RunningProcess
from holdfast.worker.function import HANDED_BACK, Outcome
from holdfast.worker.guard import Guard, GuardLost, plain_environment
from holdfast.worker.inside import identify, wait_out
from holdfast.worker.tail import LogTail

log = logging.getLogger("holdfast.outside")
TAIL_SECONDS = 0.3
LOG_CALL_SECONDS_MAX = 10.0
LAST_WORDS_SECONDS_MAX = 2.0
INPUT_VARIABLE_BYTES_MAX = 100_000
_decode_outcome = msgspec.json.Decoder(Outcome).decode


class OutsideRunner:
    """Runs attempts in processes under the warden's eyes, and sends their output to the server."""

    def __init__(self, folder: Path, transport: Transport, guard: Guard, *, lock_fd: int) -> None:
        self._folder = folder
        self._transport = transport
        self._guard = guard
        self._lock_fd = lock_fd

    def clear(self) -> None:
        """Remove what attempts of an earlier worker left: whoever holds the slot knows it gone."""
        shutil.rmtree(self._folder, ignore_errors=True)

    async def run(self, attempt: Attempt, imports: tuple[str, ...] = ()) -> Outcome:
        """Run the attempt's process and say how it ended; nothing of it is left on return."""
        folder = self._folder / f"{attempt.task_id}.{attempt.number}"
        try:
            # Nobody else's business: the call holds the token of the lease.
            folder.mkdir(mode=0o700, parents=True)
            argv = self._prepare(attempt, folder, imports)
            return await self._run(attempt, argv, folder)
        except CannotStart as problem:
            return Outcome("failed", None, str(problem), "PermanentError", "fetch")
        except OSError as error:
            return Outcome("worker_failed", error=f"this worker cannot run it: {error}")
        finally:
            # In a thread, since a command may leave any number of files.
            removal = asyncio.ensure_future(asyncio.to_thread(shutil.rmtree, folder, True))
            await wait_out(removal, on_cancel=lambda: None)

    def _prepare(self, attempt: Attempt, folder: Path, imports: tuple[str, ...]) -> list[str]:
        """Write down what the process needs, and choose its command line."""
        entrypoint = attempt.job.entrypoint
        (folder / "input.json").write_bytes(bytes(attempt.input))
        if entrypoint.command is not None:
            return entrypoint.command
        if entrypoint.shell is not None:
            return ["/bin/sh", "-c", entrypoint.shell]
        call = ChildCall(
            identify(attempt, self._transport.server),
            entrypoint,
            attempt.job.fan_out,
            list(imports),
            attempt.input,
        )
        (folder / CALL_FILE).write_bytes(msgspec.json.encode(call))
        return [sys.executable, "-m", "holdfast.worker.child", str(folder)]

    async def _run(self, attempt: Attempt, argv: list[str], folder: Path) -> Outcome:
        starting = asyncio.ensure_future(
            RunningProcess.start(
                argv,
                environment=self._environment(attempt, folder),
                folder=folder,
                guard=self._guard,
                token=str(attempt.lease_token),
                deadline=attempt.kill_at,
                lock_fd=self._lock_fd,
            )
        )
        # Seen through even if it shall stop: only a process that has begun can be waited for.
        was_cancelled = await wait_out(starting, on_cancel=lambda: None)
        process = starting.result()
        attempt.started_at = boot_clock()

        def stop(mode: StopMode) -> None:
            if mode in ("soft", "timeout"):
                process.terminate()
            else:
                process.kill()

        attempt.on_stop = stop
        attempt.on_renewed = process.renew
        _catch_up(attempt, process)
        if was_cancelled:
            stop(attempt.stop or "hard")
        gone = asyncio.Event()
        shipping = asyncio.create_task(self._ship(attempt, LogTail(folder / "output.log"), gone))
        ending = asyncio.ensure_future(process.wait())
        was_cancelled |= await wait_out(ending, on_cancel=process.kill)
        attempt.on_renewed = None
        gone.set()
        if was_cancelled:  # a drain: whoever waits for us does not wait for long
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS_MAX, shipping.cancel)
        await wait_out(shipping, on_cancel=shipping.cancel)
        if not shipping.cancelled() and (error := shipping.exception()) is not None:
            log.error("output of task %s is lost", attempt.task_id, exc_info=error)
        return _outcome(attempt, ending.result(), folder, was_cancelled=was_cancelled)

    def _environment(self, attempt: Attempt, folder: Path) -> Mapping[str, str]:
        job = attempt.job
        variables = {
            **plain_environment(),
            "PYTHONUNBUFFERED": "1",
            **job.environment,
            "HOLDFAST_SERVER": self._transport.server,
            "HOLDFAST_JOB_ID": job.job_id,
            "HOLDFAST_TASK_ID": attempt.task_id,
            "HOLDFAST_TASK_INDEX": attempt.task_id.partition(".")[2],
            "HOLDFAST_NUM_TASKS": str(job.num_tasks),
            "HOLDFAST_ATTEMPT": str(attempt.number),
            "HOLDFAST_CORRELATION_ID": job.correlation_id,
            "HOLDFAST_INPUT_FILE": str(folder / "input.json"),
        }
        if job.fan_out and len(bytes(attempt.input)) <= INPUT_VARIABLE_BYTES_MAX:
            variables["HOLDFAST_INPUT"] = bytes(attempt.input).decode()
        if job.entrypoint.command is None and job.entrypoint.shell is None:
            # A function's module is found where the worker finds it.
            places = [job.environment.get("PYTHONPATH"), *map(os.path.abspath, sys.path)]
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, places))
        return variables

    async def _ship(self, attempt: Attempt, tail: LogTail, gone: asyncio.Event) -> None:
        """Send output as it is written, and the rest once the process is gone."""
        is_last = False
        while not is_last:
            is_last = gone.is_set()
            try:
                while (piece := tail.read_new()) is not None:
                    if not await self._append(attempt, *piece):
                        return
            except OSError as error:
                log.warning("output of task %s cannot be read: %s", attempt.task_id, error)
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), TAIL_SECONDS)

    async def _append(self, attempt: Attempt, offset: int, content: bytes) -> bool:
        """Send a piece until it is stored; False if nobody will have it."""
        body = LogAppendRequest(
            attempt.task_id, attempt.number, attempt.lease_token, offset, content
        )
        while attempt.stop != "lost":
            try:
                await self._transport.insist(
                    "POST",
                    "/internal/task-log",
                    LogAppendAnswer,
                    body=body,
                    seconds_max=LOG_CALL_SECONDS_MAX,
                )
            except Refused as error:
                log.info("output of task %s is not kept: %s", attempt.task_id, error)
                return False
            except Unavailable as error:
                log.warning("output of task %s waits: %s", attempt.task_id, error)
            else:
                return True
        return False


def _catch_up(attempt: Attempt, process: RunningProcess) -> None:
    """Tell the warden of a renewal that came while the process was being started."""
    deadline = 0.0
    while deadline != attempt.kill_at:
        deadline = attempt.kill_at
        with suppress(GuardLost):  # noticed by the keeper
            process.renew(deadline)


def _outcome(
    attempt: Attempt, ended: ProcessEnded, folder: Path, *, was_cancelled: bool
) -> Outcome:
    """Read how a process ended: from what its function left, or from its exit code."""
    told = folder / OUTCOME_FILE
    if told.exists():
        return _decode_outcome(told.read_bytes())
    was_killed = ended.signal == signal.SIGKILL
    if was_killed and was_cancelled and attempt.stop is None:
        return HANDED_BACK
    if was_killed and boot_clock() >= attempt.kill_at:  # by the warden, while we were frozen
        return Outcome("worker_failed", error="its lease was running out, so it was killed")
    if ended == ProcessEnded():
        return Outcome("worker_failed", error="the exit status of its process was lost")
    code = ended.exit_code if ended.signal is None else 128 + ended.signal
    text = f"exit code {code}" if ended.signal is None else f"ended by {_name(ended.signal)}"
    if attempt.stop is not None and not (code == 0 and attempt.stop == "soft"):
        return Outcome("killed", code, text)
    if code == 0 and attempt.job.entrypoint.function is None and not attempt.job.entrypoint.pickle:
        return Outcome("succeeded", 0)
    if code == 0:
        text = "the process ended without an outcome of its function"
    return Outcome("failed", code, text, "TransientError", "exec")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
