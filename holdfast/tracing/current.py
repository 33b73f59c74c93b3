"""What the code that runs now belongs to: an attempt, and a span if its process has OpenTelemetry.

OpenTelemetry is looked for among the modules that this process has imported, never imported here.
"""

import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from holdfast.model.traces import TraceContext

PARENT_VARIABLE, STATE_VARIABLE = "TRACEPARENT", "TRACESTATE"


class _Job(Protocol):
    """What a log line says of a job."""

    @property
    def job_id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def correlation_id(self) -> str: ...
    @property
    def trace_id(self) -> str | None: ...


class Subject(Protocol):
    """The attempt that log lines are about."""

    @property
    def task_id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def job(self) -> _Job: ...


# Set where an attempt begins: whatever is logged from there on is about it.
subject: ContextVar[Subject | None] = ContextVar("holdfast_subject", default=None)


def find_trace() -> TraceContext | None:
    """Find the span that is current here, if there is one."""
    span = _current_span()
    if span is None:
        return None
    from holdfast.tracing.contexts import as_ours

    context = span.get_span_context()
    return as_ours(context) if context.is_valid else None


def follow_trace(context: TraceContext | None) -> None:
    """Have spans that user code begins here, with its own OpenTelemetry, belong to a trace."""
    if context is None or sys.modules.get("opentelemetry.trace") is None:
        return
    from opentelemetry import context as contexts

    from holdfast.tracing.contexts import as_theirs

    contexts.attach(as_theirs(context))


def read_variables(variables: Mapping[str, str] = os.environ) -> TraceContext | None:
    """Read the trace that a program was started in."""
    parent = variables.get(PARENT_VARIABLE)
    if parent is None:
        return None
    return TraceContext.read(f"{parent} {variables.get(STATE_VARIABLE, '')}")


def list_trace_variables(context: TraceContext | None) -> dict[str, str]:
    """Write a trace as the variables of a program that goes on with it."""
    if context is None:
        return {}
    state = {STATE_VARIABLE: context.state} if context.state else {}
    return {PARENT_VARIABLE: context.parent, **state}


def describe(about: Subject) -> dict[str, object]:
    """Give the fields of a log line about an attempt, as `extra`."""
    return {
        "task_id": about.task_id,
        "attempt": about.number,
        "job_id": about.job.job_id,
        "correlation_id": about.job.correlation_id,
        "trace_id": about.job.trace_id,
    }


def describe_current() -> dict[str, object]:
    """Give what log lines of the code that runs now are about."""
    about = subject.get()
    if about is not None:
        return {name: value for name, value in describe(about).items() if value is not None}
    context = find_trace()
    return {} if context is None else {"trace_id": context.trace_id}


def _current_span() -> Any:
    trace = sys.modules.get("opentelemetry.trace")
    find = getattr(trace, "get_current_span", None)  # it may be about to be imported
    return None if find is None else find()
