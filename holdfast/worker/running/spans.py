"""The worker's spans: one for the run of an attempt, and one within it for what had to be built."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.model.traces import TraceContext, as_trace_id, make_trace_id, span_id_of
from holdfast.tracing.current import follow_trace, subject
from holdfast.tracing.switch import find_tracer
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.running.runnable import Runnable

if TYPE_CHECKING:
    from holdfast.tracing.tracer import Span


def begin_run(
    attempt: Runnable,
    parent: str | None,
    *,
    worker_id: str | None = None,
    began_at: float | None = None,
) -> "Span | None":
    """Begin a run: what this task does from here on is about it, and so are spans of user code.

    It began now, or at an instant of the boot clock, under an earlier process of this worker.
    """
    tracer = find_tracer()
    if tracer is None:
        attempt.trace_parent = parent
        _enter_attempt(attempt)
        return None
    subject.set(attempt)
    before = TraceContext.read(parent)
    job = attempt.job
    trace_id = as_trace_id(job.trace_id or make_trace_id()) if before is None else before.trace_id
    span = tracer.begin(
        f"run {job.type}",
        before,
        kind="consumer",
        attributes={
            "holdfast.job_id": job.job_id,
            "holdfast.task_id": attempt.task_id,
            "holdfast.attempt": attempt.number,
            "holdfast.type": job.type,
            "holdfast.queue": job.queue,
            "holdfast.worker_id": worker_id,
            "holdfast.correlation_id": job.correlation_id,
        },
        trace_id=trace_id,
        # Known to the server, which links the next attempt to this one.
        span_id=span_id_of("run", trace_id, task_id=attempt.task_id, attempt=attempt.number),
        began_ns=None if began_at is None else time.time_ns() - _ns(boot_clock() - began_at),
    )
    span.enter()
    attempt.trace_parent = str(span.context)
    return span


def _enter_attempt(attempt: Runnable) -> None:
    """Have what is done from here on be about an attempt, and belong to its trace."""
    subject.set(attempt)
    if attempt.trace_parent is not None:
        follow_trace(TraceContext.read(attempt.trace_parent))


def end_run(span: "Span | None", outcome: Outcome) -> None:
    """End the span of a run with what came of it."""
    if span is None:
        return
    span.say(
        {
            "holdfast.outcome": outcome.status,
            "holdfast.exit_code": outcome.exit_code,
            "holdfast.stage": outcome.stage,
        }
    )
    # What was put off has not failed: its code wants to go on later.
    if outcome.status in ("failed", "worker_failed") and outcome.put_off is None:
        span.fail(outcome.error or outcome.status, kind=outcome.error_class)
    span.end()


@contextmanager
def build_span(attempt: Runnable) -> Iterator[None]:
    """Trace what is fetched and built for a run."""
    tracer = find_tracer()
    if tracer is None:
        yield
        return
    span = tracer.begin(f"build {attempt.job.type}", TraceContext.read(attempt.trace_parent))
    with tracer.current(span):
        yield


def span_of(attempt: Runnable) -> str | None:
    """Name the span that a completion belongs to, if this worker traces."""
    return None if find_tracer() is None else attempt.trace_parent


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
