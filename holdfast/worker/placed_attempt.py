"""One placed attempt: built, run under a shim of its own, and its end told until it is heard."""

import signal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec

from holdfast.wire.cluster import Gang, PlacedJob, RunningTask, TaskToRun
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import TaskCompletion
from holdfast.worker.child import OUTCOME_FILE
from holdfast.worker.clock import boot_clock
from holdfast.worker.function import HANDED_BACK, Outcome
from holdfast.worker.shims import Shim, ShimExit

MARGIN_SECONDS_MAX = 5.0
_decode_outcome = msgspec.json.Decoder(Outcome).decode


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What a later incarnation has to know of an attempt to take it over."""

    task_id: str
    attempt: int
    lease_token: UUID
    job: PlacedJob
    build: dict[str, Any] = {}


class PlacedAttempt:
    """An attempt that the server wants on this worker, or wanted until lately."""

    def __init__(self, brief: Brief, folder: Path, expires_at: float) -> None:
        self.task_id = brief.task_id
        self.number = brief.attempt
        self.lease_token = brief.lease_token
        self.job = brief.job
        self.folder = folder
        self.input: msgspec.Raw = absent_is_null()
        self.ports: dict[str, int] = {}
        self.gang: Gang | None = None
        self.state = "ASSIGNED"
        self.build: dict[str, Any] = dict(brief.build)
        self.shim: Shim | None = None
        self.ended: ShimExit | None = None
        self.outcome: Outcome | None = None
        self.stop: Literal["soft", "hard", "handed_back"] | None = None
        self.expires_at = expires_at
        # How long before the lease's end its processes must be gone.
        self.margin = min(MARGIN_SECONDS_MAX, brief.job.lease / 6)

    @property
    def key(self) -> tuple[str, int]:
        """What tells this attempt from every other."""
        return self.task_id, self.number

    @property
    def is_over(self) -> bool:
        """Whether its end is known, and nothing of it runs any more."""
        return self.outcome is not None

    @property
    def kill_at(self) -> float:
        """When its processes are killed, because the lease is running out."""
        return self.expires_at - self.margin

    def brief(self) -> Brief:
        """Write down what a later incarnation has to know."""
        return Brief(
            task_id=self.task_id,
            attempt=self.number,
            lease_token=self.lease_token,
            job=self.job,
            build=self.build,
        )

    def take(self, task: TaskToRun) -> None:
        """Take what is needed to start."""
        self.input, self.ports, self.gang = task.input, task.ports, task.gang

    def renew(self, expires_at: float) -> None:
        """Move the end of the lease, which only ever grows."""
        if expires_at > self.expires_at:
            self.expires_at = expires_at
            if self.shim is not None and not self.is_over:
                self.shim.renew(self.kill_at)

    def report(self) -> RunningTask:
        """Say where it stands."""
        return RunningTask(self.task_id, self.number, self.lease_token, self.state)

    def complete(self) -> TaskCompletion:
        """Say how it ended."""
        outcome = self.outcome
        assert outcome is not None, "an attempt is completed once it is over"
        usage = None
        if self.ended is not None and self.ended.usage is not None:
            usage = {**msgspec.to_builtins(self.ended.usage), "limits": self.ended.limits}
        return TaskCompletion(
            self.task_id,
            self.number,
            self.lease_token,
            outcome.status,
            outcome.exit_code,
            outcome.error,
            outcome.error_class,
            outcome.stage,
            msgspec.UNSET if outcome.result is None else msgspec.Raw(outcome.result.encode()),
            start_reported=False,
            usage=usage,
            build=self.build or None,
        )

    def read_outcome(self, ended: ShimExit) -> Outcome:
        """Say what the end of its processes means."""
        told = self.folder / OUTCOME_FILE
        if ended.reason is None and told.exists():
            return _decode_outcome(told.read_bytes())
        code = ended.exit_code if ended.signal is None else 128 + ended.signal
        text = f"exit code {code}" if ended.signal is None else f"ended by {_name(ended.signal)}"
        match ended.reason:
            case "lease":
                return Outcome("worker_failed", error="its lease ran out, so it was killed")
            case "shim_lost":
                return Outcome("worker_failed", error=ended.error)
            case "cannot_start":
                return Outcome("failed", None, ended.error, "PermanentError", "fetch")
            case "oom":
                return Outcome("failed", code, self._tell_memory(), "OutOfMemory", "exec")
        if self.stop == "handed_back":
            return HANDED_BACK
        if self.stop is not None and not (code == 0 and self.stop == "soft"):
            if told.exists():
                return _decode_outcome(told.read_bytes())
            return Outcome("killed", code, text)
        entrypoint = self.job.entrypoint
        if code == 0 and entrypoint.function is None and not entrypoint.pickle:
            return Outcome("succeeded", 0)
        if code == 0:
            text = "the process ended without an outcome of its function"
        return Outcome("failed", code, text, "TransientError", "exec")

    def is_out_of_time(self) -> bool:
        """Tell whether the lease is running out before anything was started."""
        return boot_clock() >= self.kill_at

    def _tell_memory(self) -> str:
        return (
            f"out of memory: it used more than the {self.job.resources.memory} bytes it asked for"
        )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
