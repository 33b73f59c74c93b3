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
from typing import Any

import msgspec

from holdfast.errors import Refused, Unavailable
from holdfast.wire.answers import LogAppendAnswer
from holdfast.wire.requests import LogAppendRequest
from holdfast.worker.attempt import Attempt, StopMode
from holdfast.worker.child import CALL_FILE, OUTCOME_FILE, ChildCall
from holdfast.worker.command import CannotStart, ProcessEnded, RunningProcess
from holdfast.worker.function import Outcome
from holdfast.worker.guard import Guard, plain_environment
from holdfast.worker.inside import identify
from holdfast.worker.keeper import Keeper
from holdfast.worker.tail import LogTail

log = logging.getLogger("holdfast.outside")
TAIL_SECONDS = 0.3
LOG_CALL_SECONDS_MAX = 10.0
INPUT_VARIABLE_BYTES_MAX = 100_000
_decode_outcome = msgspec.json.Decoder(Outcome).decode


class OutsideRunner:
    """Runs attempts in processes under the warden's eyes, and sends their output to the server."""

    def __init__(
        self, server: str, folder: Path, keeper: Keeper, guard: Guard, *, lock_fd: int
    ) -> None:
        self._server = server
        self._folder = folder
        self._keeper = keeper
        self._guard = guard
        self._lock_fd = lock_fd

    async def run(self, attempt: Attempt, imports: tuple[str, ...] = ()) -> Outcome:
        """Run the attempt's process and say how it ended; nothing of it is left on return."""
        folder = self._folder / f"{attempt.task_id}.{attempt.number}"
        # What an attempt of that name left here belongs to another server's ledger.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir(parents=True)
            argv = self._prepare(attempt, folder, imports)
            return await self._run(attempt, argv, folder)
        except CannotStart as problem:
            return Outcome("failed", None, str(problem), "PermanentError", "fetch")
        except OSError as error:
            return Outcome("worker_failed", error=f"this worker cannot run it: {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _prepare(self, attempt: Attempt, folder: Path, imports: tuple[str, ...]) -> list[str]:
        """Write down what the process needs, and choose its command line."""
        entrypoint = attempt.job.entrypoint
        (folder / "input.json").write_bytes(bytes(attempt.input))
        if entrypoint.command is not None:
            return entrypoint.command
        if entrypoint.shell is not None:
            return ["/bin/sh", "-c", entrypoint.shell]
        call = ChildCall(
            identify(attempt, self._server),
            entrypoint,
            attempt.job.fan_out,
            list(imports),
            attempt.input,
        )
        (folder / CALL_FILE).write_bytes(msgspec.json.encode(call))
        return [sys.executable, "-m", "holdfast.worker.child", str(folder)]

    async def _run(self, attempt: Attempt, argv: list[str], folder: Path) -> Outcome:
        process = await RunningProcess.start(
            argv,
            environment=self._environment(attempt, folder),
            folder=folder,
            guard=self._guard,
            token=str(attempt.lease_token),
            deadline=attempt.expires_at - attempt.margin / 2,
            lock_fd=self._lock_fd,
        )

        def stop(mode: StopMode) -> None:
            if mode in ("soft", "timeout"):
                process.terminate()
            else:
                process.kill()

        attempt.on_stop = stop
        attempt.on_renewed = process.renew
        if attempt.stop is not None:  # asked for while the process was being started
            stop(attempt.stop)
        gone = asyncio.Event()
        shipping = asyncio.create_task(self._ship(attempt, LogTail(folder / "output.log"), gone))
        try:
            ended = await process.wait()
        except BaseException:
            process.kill()
            with suppress(asyncio.CancelledError):
                await process.wait()
            raise
        finally:
            attempt.on_stop = attempt.on_renewed = None
            gone.set()
            await shipping
        return _outcome(attempt, ended, folder)

    def _environment(self, attempt: Attempt, folder: Path) -> Mapping[str, str]:
        variables = {
            **plain_environment(),
            **attempt.job.environment,
            "HOLDFAST_SERVER": self._server,
            "HOLDFAST_JOB_ID": attempt.job.job_id,
            "HOLDFAST_TASK_ID": attempt.task_id,
            "HOLDFAST_TASK_INDEX": attempt.task_id.partition(".")[2],
            "HOLDFAST_NUM_TASKS": str(attempt.job.num_tasks),
            "HOLDFAST_ATTEMPT": str(attempt.number),
            "HOLDFAST_CORRELATION_ID": attempt.job.correlation_id,
            "HOLDFAST_INPUT_FILE": str(folder / "input.json"),
            "PYTHONUNBUFFERED": "1",
            # A function's module is found where the worker finds it.
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        if attempt.job.fan_out and len(bytes(attempt.input)) <= INPUT_VARIABLE_BYTES_MAX:
            variables["HOLDFAST_INPUT"] = bytes(attempt.input).decode()
        return variables

    async def _ship(self, attempt: Attempt, tail: LogTail, gone: asyncio.Event) -> None:
        """Send output as it is written, and the rest once the process is gone."""
        while not gone.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), TAIL_SECONDS)
            if not await self._send_new(attempt, tail):
                return

    async def _send_new(self, attempt: Attempt, tail: LogTail) -> bool:
        """Send what is new; False if nobody wants to have it."""
        while (piece := tail.read_new()) is not None:
            offset, content = piece
            body = LogAppendRequest(
                attempt.task_id, attempt.number, attempt.lease_token, offset, content
            )
            try:
                await self._keeper.call(self._append(body))
            except Refused as error:
                log.info("output of task %s is not kept: %s", attempt.task_id, error)
                return False
            except Unavailable as error:
                log.warning("output of task %s is lost: %s", attempt.task_id, error)
                return False
        return True

    async def _append(self, body: LogAppendRequest) -> Any:
        return await self._keeper.transport.insist(
            "POST",
            "/internal/task-log",
            LogAppendAnswer,
            body=body,
            seconds_max=LOG_CALL_SECONDS_MAX,
        )


def _outcome(attempt: Attempt, ended: ProcessEnded, folder: Path) -> Outcome:
    """Read how a process ended: from what its function left, or from its exit code."""
    told = folder / OUTCOME_FILE
    if told.exists():
        return _decode_outcome(told.read_bytes())
    code = ended.exit_code if ended.signal is None else 128 + ended.signal
    if ended.signal is not None:
        text = f"ended by {signal.Signals(ended.signal).name}"
    else:
        text = f"exit code {ended.exit_code}"
    if attempt.stop is not None and not (code == 0 and attempt.stop == "soft"):
        return Outcome("killed", code, text)
    if code == 0 and attempt.job.entrypoint.function is None and not attempt.job.entrypoint.pickle:
        return Outcome("succeeded", 0)
    if code == 0:
        text = "the process ended without an outcome of its function"
    return Outcome("failed", code, text, "TransientError", "exec")
