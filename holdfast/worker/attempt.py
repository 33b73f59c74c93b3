"""One attempt in the hands of this worker: its lease, by our own clock, and what is asked of it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from holdfast.wire.answers import ClaimedJob, ClaimedTask
from holdfast.wire.requests import LeaseReport, Progress

# Soft: told, may finish. Hard, timeout: must go. Lost: must go, and nobody waits for its report.
StopMode = Literal["soft", "timeout", "hard", "lost"]
_SEVERITY: dict[StopMode, int] = {"soft": 1, "timeout": 2, "hard": 3, "lost": 4}
MARGIN_SECONDS_MAX = 5.0
RENEWAL_SECONDS_MAX = 30.0
SUSPECT_PREEMPTIONS = 2
_decode_job = msgspec.json.Decoder(ClaimedJob).decode


class Attempt:
    """A claimed task. Its lease fields belong to the keeper's thread once it is held."""

    __slots__ = (
        "expires_at",
        "grace",
        "in_process",
        "input",
        "is_over",
        "job",
        "lease_token",
        "number",
        "on_renewed",
        "on_stop",
        "progress",
        "renew_at",
        "start_told",
        "started_at",
        "stop",
        "stop_by",
        "task_id",
        "times_preempted",
    )

    def __init__(self, claim: ClaimedTask, job: ClaimedJob, sent_at: float) -> None:
        self.task_id = claim.task_id
        self.number = claim.attempt
        self.lease_token: UUID = claim.lease_token
        self.job = job
        self.input = claim.input
        self.times_preempted = claim.preemption_count
        self.grace = job.grace
        self.started_at: float | None = None
        self.start_told = False
        self.is_over = False
        self.in_process = True
        self.progress: Progress | None = None
        self.stop: StopMode | None = None
        self.stop_by: float | None = None
        self.on_stop: Callable[[StopMode], None] | None = None
        self.on_renewed: Callable[[float], None] | None = None
        self.expires_at = 0.0
        self.renew_at = 0.0
        self.renew(sent_at, claim.lease_remaining_ms / 1000)

    @property
    def key(self) -> tuple[str, int]:
        """What tells this attempt from every other."""
        return self.task_id, self.number

    @property
    def is_suspect(self) -> bool:
        """Whether it has taken workers down before, or seems to have."""
        return self.times_preempted >= SUSPECT_PREEMPTIONS

    @property
    def margin(self) -> float:
        """How long before the lease's end its code must be gone."""
        return min(MARGIN_SECONDS_MAX, self.job.lease / 6)

    def renew(self, sent_at: float, remaining: float) -> None:
        """Count the lease from the moment the request was sent: it cannot have begun before."""
        self.expires_at = max(self.expires_at, sent_at + remaining)
        self.renew_at = sent_at + min(remaining / 2, RENEWAL_SECONDS_MAX)
        if self.on_renewed is not None:
            self.on_renewed(self.expires_at - self.margin / 2)

    def ask_to_stop(self, mode: StopMode, by: float | None) -> bool:
        """Note that the attempt should stop; False if it was asked the same or more before."""
        if self.stop is not None and _SEVERITY[self.stop] >= _SEVERITY[mode]:
            return False
        self.stop, self.stop_by = mode, by
        return True

    def report(self) -> LeaseReport:
        """Say what the server should know: that it lives, that it runs, how far it is."""
        is_news = self.started_at is not None and not self.start_told
        progress, self.progress = self.progress, None
        state = "RUNNING" if is_news else None
        return LeaseReport(self.task_id, self.number, self.lease_token, state, progress)

    def deadline(self) -> datetime | None:
        """Say when the attempt will have run too long, for its function to read."""
        if self.job.timeout is None:
            return None
        return datetime.now(UTC) + timedelta(seconds=self.job.timeout)


class JobCache:
    """The jobs of recent claims, decoded once."""

    def __init__(self, jobs_max: int = 1000) -> None:
        self._jobs: dict[bytes, ClaimedJob] = {}
        self._jobs_max = jobs_max

    def decode(self, text: msgspec.Raw) -> ClaimedJob:
        """Decode what a claim says of its job."""
        content = bytes(text)
        job = self._jobs.get(content)
        if job is None:
            if len(self._jobs) >= self._jobs_max:
                self._jobs.clear()
            job = self._jobs[content] = _decode_job(content)
        return job
