"""The client's part in a trace: what is submitted belongs to the span that submits it.

Spans are made by the OpenTelemetry that the process has set up for itself; else by one of our own,
where the environment asks for traces. A process that has neither still passes on what it is told.
"""

import atexit
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from holdfast.client.context import current
from holdfast.model.traces import TraceContext, find_run
from holdfast.tracing.current import find_trace, read_variables
from holdfast.tracing.switch import find_tracer, start_tracing, stop_tracing
from holdfast.wire.requests import JobBatchRequest, JobRequest

if TYPE_CHECKING:
    from holdfast.tracing.tracer import Tracer

SERVICE = "holdfast-client"


@contextmanager
def submit_span(body: JobRequest | JobBatchRequest) -> Iterator[dict[str, str]]:
    """Trace a submission; gives the headers by which the server goes on with the trace."""
    parent = _find_parent()
    tracer = find_tracer() or _find_users() or _start_own()
    if tracer is None:
        yield write_headers(parent)
        return
    span = tracer.begin(_name(body), parent, kind="client")
    with tracer.current(span):
        yield write_headers(span.context)


def write_headers(context: TraceContext | None) -> dict[str, str]:
    """Write a trace as the headers of a request that goes on with it."""
    if context is None:
        return {}
    state = {"tracestate": context.state} if context.state else {}
    return {"traceparent": context.parent, **state}


def _find_parent() -> TraceContext | None:
    """Find what this code belongs to: its span, the attempt that runs it, or what started it."""
    context = find_trace()
    if context is not None:
        return context
    attempt = current.get()
    if attempt is not None:
        identity = attempt.identity
        return find_run(
            identity.trace_parent,
            identity.trace_id,
            task_id=identity.task_id,
            attempt=identity.attempt,
        )
    return read_variables()


def _find_users() -> "Tracer | None":
    """Find what this process makes spans by, if it has set that up."""
    if sys.modules.get("opentelemetry.trace") is None:
        return None
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    from holdfast.tracing.tracer import NAME, Tracer

    return Tracer(trace.get_tracer(NAME))


@cache
def _start_own() -> "Tracer | None":
    """Trace by ourselves, if the environment asks for it; looked at once."""
    tracer = start_tracing(SERVICE, is_ours=False)
    if tracer is not None:
        atexit.register(stop_tracing)
    return tracer


def _name(body: JobRequest | JobBatchRequest) -> str:
    if isinstance(body, JobBatchRequest):
        return "submit batch"
    kind = body.type or body.name
    return f"submit {kind}" if kind else "submit"
