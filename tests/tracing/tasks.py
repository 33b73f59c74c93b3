"""The tasks that the tests of tracing run, as users write them: with OpenTelemetry of their own."""

import logging

from opentelemetry import trace

import holdfast as hf

AT_ONCE = hf.Backoff(base=0.01)


@hf.task(queue="traced", retries=1, backoff=AT_ONCE)
def fail_once(*, ctx: hf.Context) -> str:
    """Make a span in a thread, and fail the first time."""
    with trace.get_tracer(__name__).start_as_current_span("mine"):
        ctx.log.warning("by the context")
        logging.getLogger("users").warning("by a logger")
        if ctx.attempt == 0:
            raise ValueError("the first time")
    return ctx.submit(on_the_loop).id


@hf.task(queue="traced")
async def on_the_loop() -> None:
    """Make a span in a coroutine."""
    with trace.get_tracer(__name__).start_as_current_span("mine"):
        pass


@hf.task(queue="traced", isolation="process")
def in_a_child() -> None:
    """Make a span in a process of its own."""
    with trace.get_tracer(__name__).start_as_current_span("mine"):
        pass
