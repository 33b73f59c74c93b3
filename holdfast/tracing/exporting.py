"""Spans by OpenTelemetry's SDK, sent by OTLP over HTTP. Imported where tracing is on, only there.

They are gathered in a bounded queue and sent by a thread of their own: what cannot be sent is
dropped, and nobody waits for it.
"""

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator

from holdfast.tracing.tracer import NAME, Tracer, chosen_ids


class _Ids(IdGenerator):
    """Random ids, unless some were chosen."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        """Give the id of a new trace."""
        trace_id, _ = chosen_ids.get()
        return self._random.generate_trace_id() if trace_id is None else int(trace_id, 16)

    def generate_span_id(self) -> int:
        """Give the id of a new span."""
        _, span_id = chosen_ids.get()
        return self._random.generate_span_id() if span_id is None else int(span_id, 16)


def open_tracer(service: str, *, is_global: bool) -> Tracer:
    """Send spans where the environment says; a global one is user code's too, if it has none."""
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": service})
    provider = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if is_global and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(provider)
    return Tracer(provider.get_tracer(NAME), provider)
