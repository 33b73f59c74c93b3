"""Spans, by the OpenTelemetry of this process. Imported where there is one, only there."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from holdfast.model.traces import SAMPLED, TraceContext
from holdfast.tracing.contexts import as_ours, as_span_context, as_theirs

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

NAME = "holdfast"
CLOSE_SECONDS_MAX = 3.0
Kind = Literal["internal", "client", "server", "consumer"]
Attribute = str | int | float | bool
_KINDS = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
    "consumer": SpanKind.CONSUMER,
}
# The ids of the span that is begun next, where they are not to be random.
chosen_ids: ContextVar[tuple[str | None, str | None]] = ContextVar("chosen", default=(None, None))


class Span:
    """A span under way."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def context(self) -> TraceContext:
        """What others need to know to go on from here."""
        return as_ours(self._span.get_span_context())

    def rename(self, name: str) -> None:
        """Be called otherwise, now that more is known."""
        self._span.update_name(name)

    def say(self, attributes: Mapping[str, Attribute | None]) -> None:
        """Note what has turned out meanwhile."""
        self._span.set_attributes(_known(attributes))

    def fail(self, problem: str, *, kind: str | None = None) -> None:
        """Note an error: its first line is the span's status, all of it an event."""
        first = problem.partition("\n")[0]
        self._span.set_status(Status(StatusCode.ERROR, first))
        event = {"exception.message": first, "exception.stacktrace": problem}
        self._span.add_event("exception", {**event, "exception.type": kind or "error"})

    def enter(self) -> None:
        """Be the current span for the rest of this task or thread, and for what it starts."""
        contexts.attach(trace.set_span_in_context(self._span))

    def end(self) -> None:
        """Be over, and be sent."""
        self._span.end()


class Tracer:
    """Makes spans; `provider` is what has to be closed, if it is ours."""

    def __init__(self, tracer: trace.Tracer, provider: "TracerProvider | None" = None) -> None:
        self._tracer = tracer
        self._provider = provider

    def begin(
        self,
        name: str,
        parent: TraceContext | None,
        *,
        kind: Kind = "internal",
        attributes: Mapping[str, Attribute | None] | None = None,
        links: Sequence[TraceContext] = (),
        trace_id: str | None = None,
        span_id: str | None = None,
        began_ns: int | None = None,
    ) -> Span:
        """Begin a span; without a parent it is the first of a trace, whose id may be given."""
        token = chosen_ids.set((trace_id, span_id))
        try:
            span = self._tracer.start_span(
                name,
                contexts.Context() if parent is None else as_theirs(parent),
                _KINDS[kind],
                _known(attributes or {}),
                [Link(as_span_context(link)) for link in links],
                began_ns,
            )
        finally:
            chosen_ids.reset(token)
        return Span(span)

    @contextmanager
    def current(self, span: Span) -> Iterator[Span]:
        """Have a span be the current one for a block; what is raised there is noted in it."""
        with trace.use_span(span._span, end_on_exit=True):
            yield span

    def flags_of(self, trace_id: str) -> int:
        """Tell whether spans of a trace that nobody else has begun would be sent."""
        if self._provider is None:
            return SAMPLED
        decided = self._provider.sampler.should_sample(None, int(trace_id, 16), NAME)
        return SAMPLED if decided.decision.name == "RECORD_AND_SAMPLE" else 0

    def close(self) -> bool:
        """Send what is left; False if that takes too long, and is left to itself."""
        if self._provider is None:
            return True
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS_MAX)
        return not closing.is_alive()


def _known(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None}
