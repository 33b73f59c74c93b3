"""What is exported: by whom, and never at anybody's cost."""

import socket

import pytest

from holdfast.tracing import tracer as tracers
from holdfast.tracing.exporting import open_tracer
from tests.tracing.sink import listening_sink


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "holdfast-server"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=ours"}, "ours"),
    ],
)
def test_a_service_is_called_as_its_operator_wants(
    variables: dict[str, str], service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening_sink() as sink:
        for name, text in (variables | {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url}).items():
            monkeypatch.setenv(name, text)
        tracer = open_tracer("holdfast-server", is_global=False)
        tracer.begin("span", None).end()
        assert tracer.close()
    assert [span.service for span in sink.spans] == [service]


def test_a_sink_that_never_answers_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracers, "CLOSE_SECONDS_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        tracer = open_tracer("holdfast-server", is_global=False)
        for _ in range(10_000):  # more than the queue holds
            tracer.begin("span", None).end()
        assert not tracer.close()  # some are left, and nobody waits for them
