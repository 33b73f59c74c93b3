"""Spans: what is said of them arrives, below whom they belong to."""

import contextvars

import pytest

from holdfast.model.traces import TraceContext
from holdfast.tracing.current import find_trace
from holdfast.tracing.switch import find_tracer
from holdfast.tracing.tracer import Span
from tests.tracing.sink import tracing_here

TRACE, SPAN, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "a" * 16
PARENT = TraceContext(TRACE, SPAN)


def test_a_span_says_what_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with tracing_here(monkeypatch) as sink:
        tracer = find_tracer()
        assert tracer is not None
        span = tracer.begin(
            "first",
            PARENT,
            kind="client",
            attributes={"a": 1, "b": None},
            links=[PARENT._replace(span_id=OTHER)],
            span_id="b" * 16,
            began_ns=1_000_000_000,
        )
        span.rename("second")
        span.say({"c": "d", "e": None})
        span.fail("what\nwhere", kind="Oops")
        span.end()
        other = tracer.begin("root", None, trace_id="c" * 32)
        contextvars.copy_context().run(_enter, other)
        other.end()
    [seen, root] = sink.spans
    assert (seen.name, seen.kind, seen.trace_id) == ("second", "client", TRACE)
    assert (seen.span_id, seen.parent_id, seen.seconds) == ("b" * 16, SPAN, 1.0)
    assert (seen.links, seen.attributes) == ([(TRACE, OTHER)], {"a": 1, "c": "d"})
    [event] = seen.events
    assert (seen.failed, event["exception.type"]) == (True, "Oops")
    assert (event["exception.message"], event["exception.stacktrace"]) == ("what", "what\nwhere")
    assert (root.trace_id, root.parent_id, root.service) == ("c" * 32, "", "tests")


def _divide(context: TraceContext) -> None:
    assert 1 / int(find_trace() != context)


def _enter(span: Span) -> None:
    span.enter()
    assert find_trace() == span.context


def test_what_is_raised_in_a_block_is_noted_in_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    with tracing_here(monkeypatch) as sink:
        tracer = find_tracer()
        assert tracer is not None
        span = tracer.begin("block", PARENT)
        with pytest.raises(ZeroDivisionError), tracer.current(span):
            _divide(span.context)
        # Whoever is not sampled upstream is not sent from here.
        tracer.begin("silent", PARENT._replace(flags=0)).end()
    assert [(seen.name, seen.failed) for seen in sink.spans] == [("block", True)]


def test_a_sampler_is_asked_for_traces_that_nobody_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for sampler, flags in (("parentbased_always_on", 1), ("parentbased_always_off", 0)):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
        with tracing_here(monkeypatch):
            tracer = find_tracer()
            assert tracer is not None
            assert tracer.flags_of(TRACE) == flags
