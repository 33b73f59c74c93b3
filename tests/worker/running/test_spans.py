"""The worker's spans, and what user code finds of them."""

import asyncio
import contextvars
from pathlib import Path
from uuid import UUID

import msgspec
import opentelemetry.trace  # noqa: F401 - user code has it, so it is told
import pytest

from holdfast.model.traces import TraceContext, as_trace_id, span_id_of
from holdfast.tracing.current import describe_current, find_trace
from holdfast.worker.placed.attempt import PlacedAttempt, TakeoverRecord
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.running.process_setup import list_variables
from holdfast.worker.running.spans import begin_run, build_span, end_run, span_of
from tests.tracing.sink import tracing_here
from tests.worker.claims import a_claim, an_attempt
from tests.worker.placed_orders import a_job as a_placed_job

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01 a=1"


def test_an_attempt_belongs_to_its_claim_or_else_to_its_job() -> None:
    assert an_attempt(trace_parent=PARENT).trace_parent == PARENT
    claim = msgspec.structs.replace(a_claim(), trace_parent="other")
    assert an_attempt(claim=claim, trace_parent=PARENT).trace_parent == "other"


def test_switched_off_code_is_in_the_trace_of_its_job() -> None:
    attempt = an_attempt(trace_parent=PARENT, trace_id=TRACE)

    def run() -> None:
        assert begin_run(attempt, attempt.trace_parent) is None
        assert find_trace() == TraceContext.read(PARENT)
        named = {"task_id": "7.0", "attempt": 0, "job_id": "7", "correlation_id": "c"}
        assert describe_current() == {**named, "trace_id": TRACE}

    contextvars.Context().run(run)
    end_run(None, Outcome("succeeded"))
    assert (attempt.trace_parent, span_of(attempt)) == (PARENT, None)


def test_programs_find_the_trace_in_their_environment_and_not_that_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{'b' * 32}-{SPAN}-01")
    monkeypatch.setenv("TRACESTATE", "of=the,worker=itself")
    given = list_variables(an_attempt(trace_parent=PARENT), Path("/f"), "http://127.0.0.1:1")
    assert (given["TRACEPARENT"], given["TRACESTATE"]) == tuple(PARENT.split())
    none = list_variables(an_attempt(), Path("/f"), "http://127.0.0.1:1")
    assert not {"TRACEPARENT", "TRACESTATE"} & none.keys()
    named = list_variables(an_attempt(trace_id=TRACE), Path("/f"), "http://127.0.0.1:1")
    run = TraceContext.read(named["TRACEPARENT"])
    assert run is not None
    assert run.trace_id == TRACE


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [
        (Outcome("succeeded", 0), False),
        (Outcome("killed", 143, "ended by SIGTERM"), False),
        (Outcome("failed", 1, "exit code 1", "TransientError", "exec"), True),
        (Outcome("worker_failed", error="no disk"), True),
    ],
)
def test_switched_on_a_run_is_a_span_that_everybody_can_name(
    outcome: Outcome, failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = an_attempt(trace_parent=PARENT, trace_id=TRACE)

    async def run() -> None:
        span = begin_run(attempt, attempt.trace_parent, worker_id="w1", began_at=boot_clock() - 60)
        with build_span(attempt):
            pass
        assert find_trace() == TraceContext.read(attempt.trace_parent)
        end_run(span, outcome)
        assert span_of(attempt) == attempt.trace_parent

    with tracing_here(monkeypatch) as sink:
        asyncio.run(run())
    seen, build = sink.spans
    span_id = span_id_of("run", TRACE, task_id="7.0", attempt=0)
    assert attempt.trace_parent == f"00-{TRACE}-{span_id}-01 a=1"
    assert (seen.name, seen.span_id, seen.parent_id) == ("run sample", span_id, SPAN)
    assert (build.name, build.parent_id) == ("build sample", span_id)
    assert build.seconds - seen.seconds > 50  # it had begun under an earlier process
    assert (seen.failed, seen.attributes["holdfast.outcome"]) == (failed, outcome.status)
    assert seen.attributes.get("holdfast.exit_code") == outcome.exit_code
    assert len(seen.events) == failed


def test_a_job_that_no_span_has_submitted_has_a_trace_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tracing_here(monkeypatch) as sink:
        attempt = an_attempt(trace_id="order 7")
        contextvars.Context().run(lambda: end_run(begin_run(attempt, None), Outcome("succeeded")))
    [seen] = sink.spans
    assert (seen.trace_id, seen.parent_id) == (as_trace_id("order 7"), "")


def test_a_later_process_of_the_worker_goes_on_with_the_same_span(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = TakeoverRecord(
        task_id="7.0",
        attempt=0,
        lease_token=UUID(int=1),
        job=a_placed_job(),
        began_at=boot_clock(),
        trace_parent=PARENT,
    )
    first = PlacedAttempt(record, tmp_path, boot_clock() + 60)
    with tracing_here(monkeypatch) as sink:
        contextvars.Context().run(begin_run, first, first.delivered_by)  # and never ended
        second = PlacedAttempt(first.record(), tmp_path, boot_clock() + 60)
        span = contextvars.Context().run(begin_run, second, second.delivered_by)
        end_run(span, Outcome("succeeded", 0))
    [seen] = sink.spans
    assert first.trace_parent == second.trace_parent != PARENT
    assert (seen.parent_id, f"-{seen.span_id}-" in str(first.trace_parent)) == (SPAN, True)
