"""One attempt in the hands of this worker: its lease, by our own clock, and what is asked of it.

claimed ───── renew at half of it ───── stop_at ── kill_at ── fatal_at ── expires_at
                                         asked to   the        the watchdog
                                         go         keeper     kills

Once it must go, nothing is renewed any more, and `expires_at` comes closer if it is far away.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import msgspec

from holdfast.wire.answers import ClaimedJob, ClaimedTask
from holdfast.wire.requests import LeaseReport, Progress
from holdfast.worker.claimed.process_usage import UsageNews
from holdfast.worker.processes.clock import boot_clock

if TYPE_CHECKING:
    from holdfast.tracing.tracer import Span
    from holdfast.worker.claimed.function_output import AttemptOutput

# Soft, timeout: is asked, and has its grace. Hard: must go. Lost: must go, and reports nothing.
StopMode = Literal["soft", "timeout", "hard", "lost"]
_SEVERITY: dict[StopMode, int] = {"soft": 1, "timeout": 2, "hard": 3, "lost": 4}
MARGIN_SECONDS_MAX = 5.0
# How long after it must go code may still be there, and when it is taken for stuck.
GO_SECONDS_MAX = 20.0
STUCK_SECONDS_MAX = 5.0
RENEWAL_SECONDS_MAX = 30.0
START_AFTER_SECONDS = 0.05
AGAIN_SECONDS_MAX = 1.0
SUSPECT_PREEMPTIONS = 2
_decode_job = msgspec.json.Decoder(ClaimedJob).decode


class Attempt:
    """A claimed task. Its lease fields belong to the keeper's thread once it is held."""

    __slots__ = (
        "ended_at",
        "expires_at",
        "grace",
        "in_process",
        "input",
        "is_over",
        "job",
        "key",
        "lease_token",
        "margin",
        "must_isolate",
        "number",
        "on_renewed",
        "on_stop",
        "output",
        "progress",
        "progress_reported",
        "renew_at",
        "report_not_before",
        "span",
        "start_recorded_at",
        "start_reported",
        "started_at",
        "stop",
        "stop_by",
        "stuck_at",
        "task_id",
        "times_preempted",
        "trace_parent",
        "usage",
    )

    def __init__(self, claim: ClaimedTask, job: ClaimedJob, sent_at: float) -> None:
        self.task_id = claim.task_id
        self.number = claim.attempt
        # What tells this attempt from every other.
        self.key = (claim.task_id, claim.attempt)
        self.lease_token: UUID = claim.lease_token
        self.job = job
        self.input = claim.input
        self.times_preempted = claim.preemption_count
        # It was in a worker that crashed: it may crash its own process, and no other.
        self.must_isolate = claim.isolate is True
        # Of the claim; once it runs, of its run.
        self.trace_parent = (
            job.trace_parent if claim.trace_parent is msgspec.UNSET else claim.trace_parent
        )
        self.grace = job.grace
        # How long before the lease's end its code must be gone.
        self.margin = min(MARGIN_SECONDS_MAX, job.lease / 6)
        self.started_at: float | None = None
        self.ended_at: float | None = None
        # Recorded by the claim: for the server it runs, and its timeout counts, from then on.
        self.start_reported = claim.started is True
        self.start_recorded_at = sent_at if self.start_reported else None
        self.is_over = False
        self.in_process = False
        # Two fields, a writer each: what is noted while a report is on its way is not lost.
        self.progress: Progress | None = None
        self.progress_reported: Progress | None = None
        self.usage = UsageNews()
        self.span: Span | None = None
        # What its function has written within this process; made by the first word.
        self.output: AttemptOutput | None = None
        self.stop: StopMode | None = None
        # When a request to stop becomes a hard one, and when code that must go is stuck.
        self.stop_by: float | None = None
        self.stuck_at: float | None = None
        self.on_stop: Callable[[StopMode], None] | None = None
        self.on_renewed: Callable[[float], None] | None = None
        self.expires_at = 0.0
        self.renew_at = 0.0
        self.report_not_before = 0.0
        self.renew(sent_at, claim.lease_remaining_ms / 1000)

    @property
    def is_suspect(self) -> bool:
        """Whether it has taken workers down before, or seems to have."""
        return self.times_preempted >= SUSPECT_PREEMPTIONS

    @property
    def stop_at(self) -> float:
        """When its code is asked to go, because the lease is running out."""
        return self.expires_at - self.margin

    @property
    def kill_at(self) -> float:
        """When its code is made to go: a process is killed, code in this process ends it."""
        return self.expires_at - self.margin / 2

    @property
    def fatal_at(self) -> float:
        """When the watchdog ends this process, if its code is still in it."""
        return self.expires_at - self.margin / 4

    def renew(self, sent_at: float, remaining: float) -> None:
        """Count the lease from the moment the request was sent: it cannot have begun before."""
        if self._must_go():
            return
        self.expires_at = max(self.expires_at, sent_at + remaining)
        self.renew_at = sent_at + min(remaining / 2, RENEWAL_SECONDS_MAX)
        self._move_deadline()

    def lose(self, now: float) -> None:
        """Take note that the lease is gone: what is left is the time to stop the code."""
        self.expires_at = min(self.expires_at, now + self.margin)
        self._move_deadline()

    def postpone_report(self, now: float) -> None:
        """Leave the server in peace for a moment: it could not take the last report."""
        self.report_not_before = now + min(AGAIN_SECONDS_MAX, self.margin / 2)

    def is_due(self, now: float, *, with_progress: bool) -> bool:
        """Tell whether to report: at half of the lease, or with news of a start or of progress."""
        if self._must_go() or self.report_not_before > now:
            return False
        if self.renew_at <= now or (with_progress and self.has_news()):
            return True
        if self.usage.is_due(now) and not self.is_over:
            return True
        if self.started_at is None or self.start_reported or self.is_over:
            return False
        return self.started_at + START_AFTER_SECONDS <= now

    def ask_to_stop(self, mode: StopMode, now: float, *, by: float | None = None) -> bool:
        """Note that the attempt should stop; False if it was asked the same or more before."""
        if self.stop is not None and _SEVERITY[self.stop] >= _SEVERITY[mode]:
            return False
        self.stop, self.stop_by = mode, by
        if self._must_go():
            self.expires_at = min(self.expires_at, now + GO_SECONDS_MAX + self.margin / 2)
            stuck_at = now + min(STUCK_SECONDS_MAX, (self.kill_at - now) / 2)
            self.stuck_at = min(stuck_at, self.stuck_at or stuck_at)
            self._move_deadline()
        return True

    def has_news(self) -> bool:
        """Tell whether there is progress that has not been reported."""
        return self.progress is not self.progress_reported

    def report(self) -> LeaseReport:
        """Say what the server should know: that it lives, that it runs, how far it is."""
        is_start = self.started_at is not None and not self.start_reported
        progress = self.progress
        return LeaseReport(
            self.task_id,
            self.number,
            self.lease_token,
            "RUNNING" if is_start else None,
            None if progress is self.progress_reported else progress,
            count_run_ms(self) if is_start else 0,
            self.usage.find_news(),
        )

    def _must_go(self) -> bool:
        """Tell whether its code has no more time than it takes to stop."""
        return self.stop in ("hard", "lost")

    def _move_deadline(self) -> None:
        on_renewed = self.on_renewed  # the attempt's end takes it away, in another thread
        if on_renewed is not None:
            on_renewed(self.kill_at)


def count_run_ms(attempt: Attempt) -> int:
    """Count for how long the code of an attempt has run, by our own clock."""
    if attempt.started_at is None:
        return 0
    return round(((attempt.ended_at or boot_clock()) - attempt.started_at) * 1000)


class JobCache:
    """The jobs of recent claims, decoded once; a job may be as large as a pickled function."""

    def __init__(self, jobs_max: int = 1000, bytes_max: int = 16 << 20) -> None:
        self._jobs: dict[bytes, ClaimedJob] = {}
        self._jobs_max = jobs_max
        self._bytes_max = bytes_max
        self._size = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def decode(self, text: msgspec.Raw) -> ClaimedJob:
        """Decode what a claim says of its job; raises msgspec.ValidationError."""
        content = bytes(text)
        job = self._jobs.get(content)
        if job is None:
            job = _decode_job(content)
            self._size += len(content)
            if len(self._jobs) >= self._jobs_max or self._size > self._bytes_max:
                self._jobs.clear()
                self._size = len(content)
            self._jobs[content] = job
        return job
