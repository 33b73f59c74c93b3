"""One placed attempt: built, run under a shim of its own, its end reported until acknowledged."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import msgspec

from holdfast.wire.cluster import CompletedTask, Gang, PlacedJob, RunningTask, TaskToRun
from holdfast.wire.raw import absent_is_null
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_messages import ShimExit, UsageSoFar
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running import outcome_file
from holdfast.worker.running.attempt_outcome import (
    ERROR_LENGTH_MAX,
    HANDED_BACK,
    Outcome,
    name_signal,
    storable,
)
from holdfast.worker.running.outputs import read_success
from holdfast.worker.running.spans import span_of

if TYPE_CHECKING:
    from holdfast.tracing.tracer import Span

# Soft, timeout: asked to end, and has its grace. Hard: killed. Handed back: killed, for a retry.
StopMode = Literal["soft", "timeout", "hard", "handed_back"]
_SEVERITY: dict[StopMode, int] = {"soft": 1, "timeout": 2, "hard": 3, "handed_back": 3}
MARGIN_SECONDS_MAX = 5.0
# How often an attempt that runs says what it has used, if that has changed.
USAGE_SECONDS = 10.0


class TakeoverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a later incarnation has to know of an attempt to take it over.

    `began_at` is an instant of the boot clock, `environment` the folder of its Python.
    """

    task_id: str
    attempt: int
    lease_token: UUID
    job: PlacedJob
    began_at: float
    build: dict[str, Any] = {}
    environment: str | None = None
    trace_parent: str | None = None


class PlacedAttempt:
    """An attempt that the server wants on this worker, or wanted until lately."""

    def __init__(
        self,
        record: TakeoverRecord,
        folder: Path,
        expires_at: float,
        *,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._clock = clock
        self.task_id = record.task_id
        self.number = record.attempt
        self.lease_token = record.lease_token
        self.job = record.job
        self.began_at = record.began_at
        self.folder = folder
        self.input: msgspec.Raw = absent_is_null()
        self.ports: dict[str, int] = {}
        self.devices: list[str] = []
        self.gang: Gang | None = None
        self.state = "ASSIGNED"
        self.build: dict[str, Any] = dict(record.build)
        self.environment = record.environment
        # The trace that it came with, and the span that its code belongs to, once it runs.
        self.delivered_by = record.trace_parent
        self.trace_parent = record.trace_parent
        self.span: Span | None = None
        self.shim: Shim | None = None
        self.ended: ShimExit | None = None
        self.outcome: Outcome | None = None
        self.stop: StopMode | None = None
        self.stop_by = 0.0
        # Called when it is asked to stop, for what is done for it outside of its processes.
        self.on_stop: Callable[[], object] | None = None
        self.expires_at = expires_at
        # What was reported last of what it uses, and when it may be reported again.
        self._usage: UsageSoFar | None = None
        self._usage_due_at = 0.0
        # How long before the lease's end its processes must be gone.
        self.margin = min(MARGIN_SECONDS_MAX, record.job.lease / 6)

    @property
    def key(self) -> tuple[str, int]:
        """What identifies this attempt among all others."""
        return self.task_id, self.number

    @property
    def is_over(self) -> bool:
        """Whether its end is known, and nothing of it runs any more."""
        return self.outcome is not None

    @property
    def kill_at(self) -> float:
        """When its processes are killed, because the lease is running out."""
        return self.expires_at - self.margin

    def record(self) -> TakeoverRecord:
        """Write down what a later incarnation has to know."""
        return TakeoverRecord(
            task_id=self.task_id,
            attempt=self.number,
            lease_token=self.lease_token,
            job=self.job,
            began_at=self.began_at,
            build=self.build,
            environment=self.environment,
            trace_parent=self.delivered_by,
        )

    def take(self, task: TaskToRun) -> None:
        """Take what is needed to start."""
        self.input, self.ports, self.gang = task.input, task.ports, task.gang
        self.devices = task.devices

    def renew(self, expires_at: float) -> None:
        """Move the end of the lease, which only ever grows, but not that of one that must go."""
        if self.stop in ("hard", "handed_back"):
            return
        if expires_at > self.expires_at:
            self.expires_at = expires_at
            if self.shim is not None and not self.is_over:
                self.shim.renew(self.kill_at)

    def ask_to_stop(self, mode: StopMode, grace: float = 0.0) -> None:
        """Have it end; to ask the same or less than before changes nothing."""
        if self.is_over or _SEVERITY[mode] <= (_SEVERITY[self.stop] if self.stop else 0):
            return
        self.stop, self.stop_by = mode, self._clock() + grace
        self.pass_stop_on()
        if self.on_stop is not None:
            self.on_stop()

    def pass_stop_on(self) -> None:
        """Pass on to the shim what was asked, if there are both."""
        if self.shim is None or self.stop is None:
            return
        if self.stop in ("soft", "timeout"):
            self.shim.soft(max(self.stop_by - self._clock(), 0.0))
        else:
            self.shim.hard()

    def end(self) -> None:
        """Have it end, because the server has ended it: a run that took too long has its grace."""
        timeout = self.job.timeout
        has_timed_out = timeout is not None and self._clock() >= self.began_at + timeout
        if has_timed_out and self.stop in (None, "timeout"):
            self.ask_to_stop("timeout", self.job.grace)
        else:
            self.ask_to_stop("hard")

    def report(self) -> RunningTask:
        """Report where it stands."""
        return RunningTask(
            task_id=self.task_id,
            attempt=self.number,
            lease_token=self.lease_token,
            state=self.state,
            usage=self._find_news_of_usage(),
        )

    def _find_news_of_usage(self) -> dict[str, Any] | None:
        if self.shim is None or self.is_over or self._clock() < self._usage_due_at:
            return None
        usage = self.shim.read_usage()
        if usage is None or usage == self._usage:
            return None
        self._usage, self._usage_due_at = usage, self._clock() + USAGE_SECONDS
        return dict(msgspec.to_builtins(usage))

    def complete(self) -> CompletedTask:
        """Report how it ended."""
        outcome = self.outcome
        assert outcome is not None, "an attempt is completed once it is over"
        usage = None
        if self.ended is not None and self.ended.usage is not None:
            usage = {**msgspec.to_builtins(self.ended.usage), "limits": self.ended.limits}
        return CompletedTask(
            self.task_id,
            self.lease_token,
            outcome.status,
            outcome.exit_code,
            None if outcome.error is None else storable(outcome.error, ERROR_LENGTH_MAX),
            outcome.error_class,
            outcome.stage,
            msgspec.UNSET if outcome.result is None else msgspec.Raw(outcome.result.encode()),
            attempt=self.number,
            start_reported=False,
            usage=usage,
            build=self.build or None,
            trace_parent=span_of(self),
            outputs=outcome.outputs,
            put_off=outcome.put_off,
        )

    def remove(self) -> None:
        """Delete what is left of it on disk."""
        if self.shim is not None:
            self.shim.remove()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def decide_outcome(attempt: PlacedAttempt, ended: ShimExit) -> Outcome:
    """Decide what the end of its processes means; what its function has reported comes first."""
    is_function = attempt.job.entrypoint.is_function
    if is_function:
        was_asked = ended.reason in ("soft", "hard") and attempt.stop != "handed_back"
        reported = outcome_file.read_outcome(attempt.folder, was_asked_to_stop=was_asked)
        if reported is not None:
            return reported
    code = ended.exit_code if ended.signal is None else 128 + ended.signal
    text = f"exit code {code}" if ended.signal is None else f"ended by {name_signal(ended.signal)}"
    match ended.reason:
        case "lease":
            return Outcome("worker_failed", error="its lease ran out, so it was killed")
        case "shim_lost":
            return Outcome("worker_failed", error=ended.error)
        case "cannot_start":
            return Outcome("failed", None, ended.error, "PermanentError", "fetch")
        case "oom":
            return Outcome("failed", code, ended.error, "OutOfMemory", "exec")
        case "soft" | "hard" if not (code == 0 and ended.reason == "soft"):
            return HANDED_BACK if attempt.stop == "handed_back" else Outcome("killed", code, text)
    if code == 0 and not is_function:
        return read_success(attempt.folder)
    if code == 0:
        text = "the process ended without an outcome of its function"
    return Outcome("failed", code, text, "TransientError", "exec")
