"""The server's spans, for whatever way a job came in."""

from uuid import UUID

import pytest

from holdfast.errors import LeaseConflict
from holdfast.model.submitting.spec import Entrypoint, JobSpec, Submission
from holdfast.model.traces import TraceContext, as_trace_id, span_id_of
from holdfast.model.work.ids import TaskId
from holdfast.operations.ending.complete import Completed
from holdfast.operations.placed.place import Placed
from holdfast.operations.submitting.submit import submit_one
from holdfast.services.server_spans import (
    begin_deliveries,
    end_deliveries,
    now_ns,
    submission_span,
    trace_claims,
    trace_completions,
    trace_placed,
)
from holdfast.wire.requests import TaskCompletion
from tests.services.leading.test_worker_calls import a_wanted, prepared_for
from tests.tracing.sink import tracing_here
from tests.world import World

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
HEADERS = {b"traceparent": PARENT.encode(), b"tracestate": b"a=1"}


def test_switched_off_what_a_caller_says_is_passed_on() -> None:
    with submission_span(HEADERS, None) as submitting:
        assert submitting.parent_of(None) == f"{PARENT} a=1"
        assert submitting.parent_of("order 7") == f"{PARENT} a=1"
    for headers in ({}, {b"traceparent": b"\xff"}):
        with submission_span(headers, "order 7") as submitting:
            assert submitting.parent_of("order 7") is None


def test_a_submission_belongs_to_its_caller_or_to_the_trace_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = []
    with tracing_here(monkeypatch) as sink:
        for headers, wanted in ((HEADERS, None), ({}, "order 7"), ({}, TRACE), ({}, None)):
            with submission_span(headers, wanted) as submitting:
                kept.append(TraceContext.read(submitting.parent_of(wanted)))
        with submission_span({}, None, 2) as submitting:
            assert submitting.parent_of(None) is not None
            assert submitting.parent_of("order 7") is None  # one of many, in a trace of its own
    *spans, batch = sink.spans
    assert batch.name == "submit batch"
    assert [(found.trace_id, found.span_id) for found in kept if found] == [
        (span.trace_id, span.span_id) for span in spans
    ]
    assert [span.trace_id for span in spans[:3]] == [TRACE, as_trace_id("order 7"), TRACE]
    assert [span.parent_id for span in spans] == [SPAN, "", "", ""]


async def test_a_job_keeps_who_submitted_it(world: World) -> None:
    spec = JobSpec(Entrypoint(function="app:work"), queue="q")
    submission = Submission(spec, trace_parent=PARENT)
    job_id = (await submit_one(world.ledger, submission)).job_id
    row = await world.job(job_id)
    assert (row["trace_id"], row["trace_parent"]) == (TRACE, PARENT)
    [claim] = await world.claim()
    assert (claim.job.trace_id, claim.job.trace_parent) == (TRACE, PARENT)


async def test_a_job_of_a_transaction_has_a_trace_as_well(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = """select holdfast.submit('{"entrypoint": {"shell": "true"}, "queue": "q",
        "max_retries_failure": 1, "backoff": {"base": 0.01}}')"""
    [[job_id]] = await world.clock.fetch(statement)
    trace_id = (await world.job(job_id))["trace_id"]
    assert as_trace_id(trace_id) == trace_id
    with tracing_here(monkeypatch) as sink:
        for _ in range(2):
            [claim] = await world.claim()
            [context] = trace_claims([claim], "w1", now_ns())
            await world.fail(claim)
            await world.pass_time(1)
    first, second = sink.spans
    assert {first.trace_id, second.trace_id} == {trace_id}
    assert TraceContext.read(context) == TraceContext(trace_id, second.span_id)
    before = span_id_of("run", trace_id, task_id=f"{job_id}.0", attempt=0)
    assert (first.links, second.links) == ([], [(trace_id, before)])
    assert second.attributes == {
        "holdfast.job_id": str(job_id),
        "holdfast.task_id": f"{job_id}.0",
        "holdfast.attempt": 1,
        "holdfast.type": "true",
        "holdfast.queue": "q",
        "holdfast.worker_id": "w1",
        "holdfast.correlation_id": claim.job.correlation_id,
    }
    assert trace_claims([claim], "w1", now_ns()) == [None]


def test_each_delivery_of_a_placed_attempt_is_a_call_below_its_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = a_wanted(acknowledged=False)
    wanted = wanted._replace(job=wanted.job._replace(trace_parent=PARENT))
    fence = wanted.fence
    prepared = prepared_for(wanted, a_wanted(fence=fence._replace(attempt=9)))
    assert begin_deliveries(prepared) == {}
    with tracing_here(monkeypatch) as sink:
        trace_placed([Placed(fence.task_id, "w1", fence.attempt, wanted.job)], now_ns())
        spans = begin_deliveries(prepared)
        assert list(spans) == [fence]
        end_deliveries(spans, TimeoutError("no answer"))
        end_deliveries(begin_deliveries(prepared))
    place, failed, well = sink.spans
    assert (place.name, place.parent_id, place.trace_id) == ("place true", SPAN, TRACE)
    assert [span.parent_id for span in (failed, well)] == [place.span_id] * 2
    assert [(span.name, span.failed) for span in (failed, well)] == [
        ("heartbeat w1", True),
        ("heartbeat w1", False),
    ]


async def test_an_end_is_told_below_the_span_that_ran_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = JobSpec(Entrypoint(function="app:work"), queue="q")
    job_id = (await submit_one(world.ledger, Submission(spec, trace_parent=PARENT))).job_id
    task_id = TaskId(job_id, 0)
    run = f"00-{TRACE}-{'a' * 16}-01"
    told = [
        TaskCompletion(str(task_id), 0, UUID(int=1), "failed", trace_parent=parent)
        for parent in (run, None, "nonsense")
    ]
    answers = [Completed(task_id, True), Completed(task_id, False), LeaseConflict(task_id, "no")]
    specs = world.ledger.specs
    with tracing_here(monkeypatch) as sink:
        trace_completions(specs, told, answers, began_ns=now_ns())
        unknown = TaskCompletion("999.0", 0, UUID(int=1), "failed", trace_parent=run)
        trace_completions(specs, [unknown], [answers[0]], began_ns=now_ns())
    assert [span.name for span in sink.spans] == ["complete work"] * 3
    assert sorted(span.parent_id for span in sink.spans) == sorted(["a" * 16, SPAN, SPAN])
    assert [span.attributes.get("holdfast.accepted") for span in sink.spans] == [True, False, None]
    assert [span.failed for span in sink.spans] == [False, False, True]
