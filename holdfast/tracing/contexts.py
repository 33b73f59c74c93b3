"""Trace contexts, from OpenTelemetry and for it. Imported where a process has it, only there."""

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext
from opentelemetry.trace.span import TraceFlags, TraceState

from holdfast.model.traces import TraceContext


def as_ours(context: SpanContext) -> TraceContext:
    """Take a context from OpenTelemetry."""
    return TraceContext(
        trace.format_trace_id(context.trace_id),
        trace.format_span_id(context.span_id),
        int(context.trace_flags),
        context.trace_state.to_header(),
    )


def as_span_context(context: TraceContext) -> SpanContext:
    """Name a span of another process."""
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(context.flags),
        trace_state=TraceState.from_header([context.state]) if context.state else None,
    )


def as_theirs(context: TraceContext) -> contexts.Context:
    """Make a context with nothing in it but a span of another process."""
    return trace.set_span_in_context(NonRecordingSpan(as_span_context(context)), contexts.Context())
