"""What the code that runs now belongs to."""

import contextvars
from dataclasses import dataclass

from opentelemetry import trace

from holdfast.model.traces import TraceContext
from holdfast.tracing.current import (
    describe_current,
    find_trace,
    follow_trace,
    list_trace_variables,
    read_variables,
    subject,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTEXT = TraceContext(TRACE, SPAN, 1, "a=1")


@dataclass(frozen=True)
class Job:
    """What a log line says of a job."""

    job_id: str = "7"
    type: str = "load"
    correlation_id: str = "c"
    trace_id: str | None = "t"


@dataclass(frozen=True)
class Attempt:
    """What a log line says of an attempt."""

    task_id: str = "7.0"
    number: int = 2
    job: Job = Job()


def test_nothing_is_current_to_begin_with() -> None:
    assert contextvars.Context().run(find_trace) is None
    assert contextvars.Context().run(describe_current) == {}


def test_user_code_that_is_made_to_follow_a_trace_is_in_it() -> None:
    def look() -> tuple[TraceContext | None, dict[str, object], bool]:
        follow_trace(CONTEXT)
        span = trace.get_current_span().get_span_context()
        return find_trace(), describe_current(), span.is_remote

    assert contextvars.Context().run(look) == (CONTEXT, {"trace_id": TRACE}, True)


def test_lines_are_about_the_attempt_that_runs() -> None:
    def look(attempt: Attempt) -> dict[str, object]:
        follow_trace(CONTEXT)
        subject.set(attempt)
        return describe_current()

    named = {"task_id": "7.0", "attempt": 2, "job_id": "7", "correlation_id": "c"}
    assert contextvars.Context().run(look, Attempt()) == {**named, "trace_id": "t"}
    assert contextvars.Context().run(look, Attempt(job=Job(trace_id=None))) == named


def test_a_program_is_told_of_its_trace_by_variables() -> None:
    variables = list_trace_variables(CONTEXT)
    assert variables == {"TRACEPARENT": f"00-{TRACE}-{SPAN}-01", "TRACESTATE": "a=1"}
    assert read_variables(variables) == CONTEXT
    plain = CONTEXT._replace(state="")
    assert read_variables(list_trace_variables(plain)) == plain
    assert read_variables(list_trace_variables(None)) is None
    assert read_variables({"TRACEPARENT": "nonsense"}) is None
