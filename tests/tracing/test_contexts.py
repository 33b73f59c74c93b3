"""Contexts go to OpenTelemetry and come back the same."""

import pytest
from opentelemetry import trace

from holdfast.model.traces import TraceContext
from holdfast.tracing.contexts import as_ours, as_span_context, as_theirs

CONTEXT = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)


@pytest.mark.parametrize(
    "context", [CONTEXT, CONTEXT._replace(flags=0), CONTEXT._replace(state="a=1,b=2")]
)
def test_a_context_survives_both_ways(context: TraceContext) -> None:
    assert as_ours(as_span_context(context)) == context
    span = trace.get_current_span(as_theirs(context))
    assert as_ours(span.get_span_context()) == context
