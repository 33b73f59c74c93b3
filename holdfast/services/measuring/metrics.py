"""What a server counts and measures, in the form Prometheus reads."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.limits.server_limits import LIMITS
from holdfast.model.submitting.schedules import FiringOutcome
from holdfast.model.work.states import ENDED_STATES, TaskState
from holdfast.rules.quantiles import BOUNDS_SECONDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TYPES_MAX = 500


class Metrics:
    """The counters and histograms of one server."""

    def __init__(self, ledger: Ledger) -> None:
        self._specs = ledger.specs
        self.registry = CollectorRegistry()
        self._types: set[str] = set()

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"holdfast_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(
                f"holdfast_{name}", text, ("type",), buckets=BOUNDS_SECONDS, registry=self.registry
            )

        self.claims = counter("claims_total", "Attempts created by claims and placements.")
        self.claim_conflicts = counter("claim_conflicts_total", "Claims by id that were refused.")
        self.renewals = counter("lease_renewals_total", "Leases renewed.")
        self.lease_conflicts = counter("lease_conflicts_total", "Reports without a valid lease.")
        self.expiries = counter("lease_expiries_total", "Leases that ran out and were ended.")
        self.retries = counter(
            "retries_total", "Tasks sent back for another attempt, pauses left out."
        )
        self.failures = counter("failures_total", "Attempts that ended FAILED.")
        self.put_offs = counter(
            "put_offs_total", "Attempts that ended FAILED because their code asked for a later one."
        )
        self.signal_waits = counter(
            "signal_waits_total", "Attempts that ended WORKER_FAILED to wait for a signal."
        )
        self.dead_letters = counter("dead_letters_total", "Tasks moved to the dead letters.")
        self.submissions = counter("submitted_tasks_total", "Tasks taken in.")
        self.transitions = counter(
            "transitions_total",
            "Moves of tasks; a wait for a signal is one to WORKER_FAILED and one to PENDING.",
            ("from", "to"),
        )
        self.wait_seconds = histogram("wait_seconds", "From eligible to claimed, by job type.")
        self.run_seconds = histogram("run_seconds", "From started to ended, by job type.")
        self.beat_failures = counter("heartbeat_failures_total", "Calls to workers that failed.")
        self.beat_seconds = Histogram(
            "holdfast_heartbeat_seconds",
            "Calls to workers, from the sending to the answer being stored.",
            buckets=BOUNDS_SECONDS,
            registry=self.registry,
        )
        self._add_schedules(counter)
        self._turns = counter(
            "limit_turns_total",
            "What code that asked for a limit was told: go on at_once, later, or too_late for it.",
            ("limit", "given"),
        )
        self._refusals = counter(
            "limit_refusals_total", "Requests and connections that a limit has refused.", ("limit",)
        )
        for limit in LIMITS:
            self._refusals.labels(limit)

    def _add_schedules(self, counter: Callable[..., Counter]) -> None:
        self.firings = counter(
            "schedule_firings_total", "Instants of schedules that were decided.", ("outcome",)
        )
        for outcome in get_args(FiringOutcome):
            self.firings.labels(outcome)
        self.misses = counter("schedule_misses_total", "Instants of schedules nobody looked at.")
        self.lag_seconds = Histogram(
            "holdfast_schedule_lag_seconds",
            "From the instant of a schedule, its jitter included, to its firing.",
            buckets=BOUNDS_SECONDS,
            registry=self.registry,
        )

    def count_turn(self, limit: str, given: str) -> None:
        """Count what code that asked for a limit by its name was told."""
        self._turns.labels(limit, given).inc()

    def count_refusal(self, limit: str) -> None:
        """Count what a limit of the server has refused."""
        self._refusals.labels(limit).inc()

    def watch(self, name: str, text: str, count: Callable[[], int]) -> None:
        """Show what a limit bounds."""
        Gauge(f"holdfast_{name}", text, registry=self.registry).set_function(count)

    def watch_certificate(self, expires_at: Callable[[], datetime]) -> None:
        """Show until when the certificate of this server is good."""
        gauge = Gauge(
            "holdfast_tls_certificate_expiry_seconds",
            "When the certificate of this server expires, in seconds since 1970.",
            registry=self.registry,
        )
        gauge.set_function(lambda: expires_at().timestamp())

    def count(self, news: News) -> None:
        """Count what a transaction did."""
        self.submissions.inc(sum(job.submitted for job in news.stored_jobs))
        for (start, end), count in news.moves.items():
            names = TaskState(start).name, TaskState(end).name
            self.transitions.labels(*names).inc(count)
            if end == TaskState.ASSIGNED:
                self.claims.inc(count)
            elif end == TaskState.PENDING and start in ENDED_STATES:
                self.retries.inc(count - news.pauses[start])
            elif end == TaskState.FAILED:
                self.failures.inc(count)
            elif end == TaskState.DEAD_LETTERED:
                self.dead_letters.inc(count)
        for outcome, seconds in news.firings:
            self.firings.labels(outcome).inc()
            if seconds is not None:
                self.lag_seconds.observe(max(seconds, 0.0))
        if news.missed_firings:
            self.misses.inc(news.missed_firings)
        if news.pauses:  # neither a retry nor, where it is a signal that is waited for, a loss
            self.signal_waits.inc(news.pauses[TaskState.WORKER_FAILED])
        if news.put_off:
            self.put_offs.inc(news.put_off)
        if news.renewed:
            self.renewals.inc(news.renewed)
        if news.expired:
            self.expiries.inc(news.expired)
        for histogram, times in (
            (self.wait_seconds, news.waits),
            (self.run_seconds, news.runs),
        ):
            by_job: dict[int, Any] = {}
            for job_id, seconds in times:
                child = by_job.get(job_id)
                if child is None:
                    child = by_job[job_id] = histogram.labels(self.type_of(job_id))
                child.observe(max(seconds, 0.0))

    def count_beat(self, seconds: float, *, failed: bool) -> None:
        """Count a call to a worker."""
        self.beat_seconds.observe(seconds)
        if failed:
            self.beat_failures.inc()

    def render(self) -> bytes:
        """Write everything down for a scrape."""
        return generate_latest(self.registry)

    def type_of(self, job_id: int) -> str:
        """Name a job's type; a runaway number of types is folded into one."""
        spec = self._specs.find(job_id)
        name = spec.terms.type if spec is not None else "other"
        if name not in self._types:
            if len(self._types) >= TYPES_MAX:
                return "other"
            self._types.add(name)
        return name
