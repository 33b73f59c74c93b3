"""What is submitted belongs to the span that submits it."""

import contextvars
import subprocess
import sys

import msgspec
import opentelemetry.trace  # noqa: F401 - user code has it, so it is told
import pytest

from holdfast.client.context import current
from holdfast.client.submit_spans import submit_span, write_headers
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.traces import TraceContext
from holdfast.tracing.current import follow_trace
from holdfast.wire.requests import JobBatchRequest, JobRequest
from tests.cli.program import environment
from tests.client.contexts import build_context
from tests.tracing.sink import listening_sink, tracing_here

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
CONTEXT = TraceContext(TRACE, SPAN, 1, "a=1")
HEADERS = {"traceparent": PARENT, "tracestate": "a=1"}
REQUEST = JobRequest(entrypoint=Entrypoint(shell="true"), type="resize")


def submit() -> dict[str, str]:
    """Submit something, as far as the headers of the request."""
    with submit_span(REQUEST) as headers:
        return headers


def test_switched_off_what_is_current_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def within_a_span() -> dict[str, str]:
        follow_trace(CONTEXT)
        return submit()

    def within_an_attempt() -> dict[str, str]:
        context = build_context("http://127.0.0.1:1")
        context.identity = msgspec.structs.replace(context.identity, trace_parent=str(CONTEXT))
        current.set(context)
        return submit()

    new = contextvars.Context
    assert new().run(submit) == {}
    assert new().run(within_a_span) == HEADERS
    assert new().run(within_an_attempt) == HEADERS
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACESTATE", "a=1")
    assert new().run(submit) == HEADERS
    assert write_headers(CONTEXT._replace(state="")) == {"traceparent": PARENT}


def test_switched_on_it_is_a_span_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    with tracing_here(monkeypatch) as sink:
        headers = contextvars.Context().run(submit)
        with submit_span(JobBatchRequest([])):
            pass
    one, batch = sink.spans
    assert (one.name, one.kind, one.parent_id) == ("submit resize", "client", SPAN)
    assert headers == {"traceparent": f"00-{TRACE}-{one.span_id}-01"}
    assert batch.name == "submit batch"


USERS_OWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
import sys
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(
    ConsoleSpanExporter(sys.stdout, formatter=lambda span: span.name + "\\n")))
trace.set_tracer_provider(provider)
"""
SUBMIT = """
from holdfast.client.submit_spans import submit_span
from holdfast.wire.requests import JobBatchRequest
with submit_span(JobBatchRequest([])) as headers:
    assert headers
"""


def test_a_program_traces_by_what_it_has_set_up_or_by_the_environment() -> None:
    def run(code: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment(OTEL_EXPORTER_OTLP_ENDPOINT=sink.url),
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    with listening_sink() as sink:
        assert run(USERS_OWN + SUBMIT) == "submit batch\n"
        assert sink.spans == []
        assert run(SUBMIT) == ""
        assert [(span.name, span.service) for span in sink.spans] == [
            ("submit batch", "holdfast-client")
        ]
