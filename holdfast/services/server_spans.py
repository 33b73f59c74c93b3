"""The server's spans: of submissions, of what is handed out and delivered, and of ends.

    submit ─┬─ claim ─────────────── run (worker) ─┬─ user code
            └─ place ── heartbeat ── run (worker) ─┴─ complete

A retry is claimed or placed below the same submission, with a link to the run before it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from holdfast.model.traces import TraceContext, as_trace_id, make_trace_id, span_id_of
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId, parse_task_id
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending.complete import Completed
from holdfast.operations.placed.place import Placed
from holdfast.operations.placed.worker_heartbeats import Prepared
from holdfast.operations.submitting.store import Submitted
from holdfast.store.specs import SpecCache, StoredSpec
from holdfast.tracing.switch import find_tracer
from holdfast.wire.requests import TaskCompletion

if TYPE_CHECKING:
    from holdfast.tracing.tracer import Attribute, Span, Tracer

PARENT_HEADER, STATE_HEADER = b"traceparent", b"tracestate"


def now_ns() -> int:
    """Read the clock that spans are dated by."""
    return time.time_ns()


class Submitting(NamedTuple):
    """A submission under way: who called, and the span of the call if we trace."""

    given: TraceContext | None
    span: "Span | None" = None

    def parent_of(self, wanted: str | None) -> str | None:
        """Say what a job keeps, whose spec may name a trace that this call does not belong to."""
        context = self.given if self.span is None else self.span.context
        if context is None:
            return None
        is_elsewhere = wanted is not None and as_trace_id(wanted) != context.trace_id
        return None if is_elsewhere and self.given is None else str(context)

    def describe(self, specs: SpecCache, submitted: Submitted) -> None:
        """Note what has become of a single job."""
        if self.span is None:
            return
        job = specs.find(submitted.job_id)
        if job is not None:
            self.span.rename(f"submit {job.terms.type}")
            self.span.say(_describe(job, submitted.job_id))
        self.span.say({"holdfast.job_id": str(submitted.job_id), "holdfast.new": submitted.is_new})


@contextmanager
def submission_span(
    headers: Mapping[bytes, bytes], wanted: str | None, jobs: int = 1
) -> Iterator[Submitting]:
    """Trace a submission below whoever called; `wanted` is what its spec calls the trace."""
    given = _read_headers(headers)
    tracer = find_tracer()
    if tracer is None:
        yield Submitting(given)
        return
    span = tracer.begin(
        "submit" if jobs == 1 else "submit batch",
        given,
        kind="server",
        attributes={"holdfast.jobs": jobs},
        trace_id=None if wanted is None else as_trace_id(wanted),
    )
    with tracer.current(span):
        yield Submitting(given, span)


def trace_claims(claims: Sequence[Claim], worker_id: str, began_ns: int) -> list[str | None]:
    """Trace what was claimed; gives the span of each, for its run to go on from."""
    tracer = find_tracer()
    if tracer is None:
        return [None] * len(claims)
    contexts: list[str | None] = []
    for claim in claims:
        span = _hand_out(
            tracer, "claim", claim.job, task_id=claim.task_id, attempt=claim.attempt,
            worker_id=worker_id, began_ns=began_ns,
        )  # fmt: skip
        contexts.append(str(span.context))
        span.end()
    return contexts


def trace_placed(placed: Sequence[Placed], began_ns: int) -> None:
    """Trace what was placed; the call that delivers it can work out the ids."""
    tracer = find_tracer()
    if tracer is not None:
        for item in placed:
            _hand_out(
                tracer, "place", item.job, task_id=item.task_id, attempt=item.attempt,
                worker_id=item.worker_id, began_ns=began_ns,
            ).end()  # fmt: skip


def begin_deliveries(prepared: Prepared) -> "dict[Fence, Span]":
    """Begin a span for each attempt that a call to a worker delivers."""
    tracer = find_tracer()
    if tracer is None:
        return {}
    spans = {}
    for wanted in prepared.wanted:
        if wanted.ending or wanted.acknowledged:
            continue
        task_id, attempt = wanted.fence.task_id, wanted.fence.attempt
        context = _context_of(tracer, wanted.job)
        place = span_id_of("place", context.trace_id, task_id=str(task_id), attempt=attempt)
        spans[wanted.fence] = tracer.begin(
            f"heartbeat {prepared.worker_id}",
            context._replace(span_id=place),
            kind="client",
            attributes={
                **_describe_attempt(wanted.job, task_id, attempt),
                "holdfast.worker_id": prepared.worker_id,
                "server.address": prepared.address,
            },
        )
    return spans


def end_deliveries(spans: "Mapping[Fence, Span]", failure: Exception | None = None) -> None:
    """End the spans of a call, which may have failed: then the next one delivers."""
    for span in spans.values():
        if failure is not None:
            span.fail(str(failure), kind=type(failure).__name__)
        span.end()


def trace_completions(
    specs: SpecCache,
    reported: Sequence[TaskCompletion],
    answers: Sequence[object],
    *,
    began_ns: int,
) -> None:
    """Trace the ends that a worker has reported, below the spans that ran them."""
    tracer = find_tracer()
    if tracer is None:
        return
    for item, answer in zip(reported, answers, strict=False):
        task_id = parse_task_id(item.task_id)
        job = specs.find(task_id.job_id)
        parent = TraceContext.read(item.trace_parent)
        if job is None or (parent is None and job.trace_parent is None):
            continue
        span = tracer.begin(
            f"complete {job.terms.type}",
            parent or TraceContext.read(job.trace_parent),
            kind="server",
            attributes={
                **_describe_attempt(job, task_id, item.attempt),
                "holdfast.outcome": item.status,
                "holdfast.accepted": answer.accepted if isinstance(answer, Completed) else None,
            },
            began_ns=began_ns,
        )
        if isinstance(answer, Exception):
            span.fail(str(answer), kind=type(answer).__name__)
        span.end()


def _hand_out(
    tracer: "Tracer",
    step: str,
    job: StoredSpec,
    *,
    task_id: TaskId,
    attempt: int,
    worker_id: str,
    began_ns: int,
) -> "Span":
    """Begin the span of a claim or a placement, linked to the run before it if there was one."""
    context = _context_of(tracer, job)
    trace_id, name = context.trace_id, str(task_id)
    before = span_id_of("run", trace_id, task_id=name, attempt=attempt - 1)
    return tracer.begin(
        f"{step} {job.terms.type}",
        None if job.trace_parent is None else context,
        attributes={**_describe_attempt(job, task_id, attempt), "holdfast.worker_id": worker_id},
        links=[context._replace(span_id=before)] if attempt else [],
        trace_id=trace_id,
        span_id=span_id_of("place", trace_id, task_id=name, attempt=attempt)
        if step == "place"
        else None,
        began_ns=began_ns,
    )


def _context_of(tracer: "Tracer", job: StoredSpec) -> TraceContext:
    """Find where a job stands in its trace; without a span of its submission it has a trace too."""
    context = TraceContext.read(job.trace_parent)
    if context is not None:
        return context
    trace_id = as_trace_id(job.trace_id or make_trace_id())
    return TraceContext(trace_id, "0" * 16, tracer.flags_of(trace_id))


def _describe_attempt(
    job: StoredSpec, task_id: TaskId, attempt: int
) -> "dict[str, Attribute | None]":
    named: dict[str, Attribute | None] = {
        "holdfast.task_id": str(task_id),
        "holdfast.attempt": attempt,
    }
    return named | _describe(job, task_id.job_id)


def _describe(job: StoredSpec, job_id: int) -> "dict[str, Attribute | None]":
    return {
        "holdfast.job_id": str(job_id),
        "holdfast.type": job.terms.type,
        "holdfast.queue": job.terms.queue,
        "holdfast.correlation_id": job.correlation_id,
    }


def _read_headers(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    parent = headers.get(PARENT_HEADER)
    if parent is None:
        return None
    state = headers.get(STATE_HEADER, b"")
    return TraceContext.read(f"{parent.decode('latin-1')} {state.decode('latin-1')}")
