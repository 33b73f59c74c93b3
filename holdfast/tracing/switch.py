"""Whether this process traces: decided once, by the variables that OpenTelemetry has for it.

Nothing of OpenTelemetry is imported before it is switched on. Off, all that is left of tracing is a
look at one variable.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.tracing.tracer import Tracer

log = logging.getLogger("holdfast.tracing")
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
_active: "Tracer | None" = None


def find_tracer() -> "Tracer | None":
    """Give what makes spans; None while tracing is off."""
    return _active


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Tell whether the environment asks for traces: it names an exporter, or where they go."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = variables.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporters:
        return "otlp" in (name.strip() for name in exporters.split(","))
    return any(variables.get(name, "").strip() for name in ENDPOINTS)


def start_tracing(service: str, *, is_ours: bool = True) -> "Tracer | None":
    """Begin to trace if the environment asks for it; a process that is ours offers it to all."""
    global _active  # noqa: PLW0603 - one switch per process is the point
    if _active is not None or not is_wanted(os.environ):
        return _active
    try:
        from holdfast.tracing.exporting import open_tracer
    except ImportError as error:
        log.warning("no traces, %s: install holdfast[tracing]", error)
        return None
    for name in PROTOCOLS:
        if os.environ.get(name, PROTOCOL) != PROTOCOL:
            log.warning("traces go by %s; %s is not heeded", PROTOCOL, name)
    _active = open_tracer(service, is_global=is_ours)
    return _active


@contextmanager
def traced(service: str) -> Iterator[None]:
    """Trace for the time of a block, if the environment asks for it."""
    start_tracing(service)
    try:
        yield
    finally:
        stop_tracing()


def stop_tracing() -> None:
    """Send what is left, as far as that can be done in a moment."""
    global _active
    tracer, _active = _active, None
    if tracer is not None:
        tracer.close()
