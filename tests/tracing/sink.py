"""A real OTLP sink on loopback: takes what exporters send over HTTP, and keeps the spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from holdfast.tracing.switch import start_tracing, stop_tracing

PATH = "/v1/traces"


@dataclass(frozen=True)
class SeenSpan:
    """A span as it arrived."""

    name: str
    service: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]
    failed: bool
    events: list[dict[str, Any]]
    seconds: float


@dataclass
class Sink:
    """Where spans end up."""

    url: str
    spans: list[SeenSpan] = field(default_factory=list)

    def of(self, trace_id: str) -> list[SeenSpan]:
        """List the spans of a trace."""
        return [span for span in self.spans if span.trace_id == trace_id]

    def tree(self, trace_id: str) -> list[str]:
        """Write a trace as lines, each indented below its parent; siblings in order of start."""
        spans = self.of(trace_id)
        known = {span.span_id for span in spans}

        def below(parent_id: str, depth: int) -> Iterator[str]:
            for span in spans:
                is_root = depth == 0 and span.parent_id not in known
                if span.parent_id == parent_id or is_root:
                    mark = "!" if span.failed else ""
                    yield "  " * depth + span.name + mark
                    yield from below(span.span_id, depth + 1)

        return list(below("", 0))

    def keep(self, request: ExportTraceServiceRequest) -> None:
        """Keep what has arrived, in the order of its start."""
        for resource in request.resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_read(span, service) for span in scope.spans]
        self.spans.sort(key=lambda span: span.seconds)


def _read(span: ProtoSpan, service: str) -> SeenSpan:
    return SeenSpan(
        span.name,
        service,
        ProtoSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        _attributes(span.attributes),
        span.status.code == Status.STATUS_CODE_ERROR,
        [{"name": event.name, **_attributes(event.attributes)} for event in span.events],
        span.start_time_unix_nano / 1e9,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


@contextmanager
def listening_sink() -> Iterator[Sink]:
    """Take spans for the time of a block."""

    class Handler(BaseHTTPRequestHandler):
        def take(self) -> None:
            """Take one export."""
            assert self.path == PATH
            request = ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                sink.keep(request)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = take

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sink = Sink(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


@contextmanager
def tracing_here(patch: pytest.MonkeyPatch) -> Iterator[Sink]:
    """Have this process trace for the time of a block; then everything has arrived."""
    with listening_sink() as sink:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
        assert start_tracing("tests", is_ours=False) is not None
        try:
            yield sink
        finally:
            stop_tracing()
