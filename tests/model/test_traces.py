"""Trace contexts as text."""

import pytest

from holdfast.model.traces import (
    TraceContext,
    as_trace_id,
    make_trace_id,
    name_trace,
    span_id_of,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("text", [PARENT, f"00-{TRACE}-{SPAN}-00", f"{PARENT} a=1,b=2"])
def test_what_was_read_is_written_again(text: str) -> None:
    context = TraceContext.read(text)
    assert context is not None
    assert (context.trace_id, context.span_id, str(context)) == (TRACE, SPAN, text)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nonsense",
        PARENT.upper(),
        PARENT[:-1],
        f"{PARENT}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{PARENT}\n",
    ],
)
def test_what_cannot_be_read_is_no_context(text: str | None) -> None:
    assert TraceContext.read(text) is None


def test_a_later_version_may_say_more() -> None:
    assert TraceContext.read(f"01-{TRACE}-{SPAN}-01-more") == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize("state", ["a=\x00", "ä=1", "a" * 513])
def test_a_state_that_cannot_be_passed_on_is_dropped(state: str) -> None:
    assert TraceContext.read(f"{PARENT} {state}") == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    ("parent", "wanted", "named"),
    [
        (PARENT, None, TRACE),
        (PARENT, "order 7", TRACE),
        (None, "order 7", "order 7"),
        ("nonsense", "order 7", "order 7"),
        (f"00-{as_trace_id('order 7')}-{SPAN}-01", "order 7", "order 7"),
    ],
)
def test_a_trace_is_named_by_its_context_then_by_the_spec(
    parent: str | None, wanted: str | None, named: str
) -> None:
    assert name_trace(parent, wanted) == named


def test_a_job_without_either_has_a_trace_of_its_own() -> None:
    first, second = name_trace(None, None), name_trace(None, None)
    assert first != second
    assert as_trace_id(first) == first


def test_any_text_stands_for_one_trace() -> None:
    assert as_trace_id(TRACE) == TRACE
    for text in ("order 7", "0" * 32, TRACE.upper(), "half \ud800"):
        found = as_trace_id(text)
        assert (len(found), found == text, as_trace_id(text)) == (32, False, found)


def test_ids_of_spans_follow_from_what_they_are() -> None:
    trace_id = make_trace_id()
    ids = {
        span_id_of(step, trace_id, task_id=task_id, attempt=attempt)
        for step in ("run", "place")
        for task_id in ("7.0", "7.1")
        for attempt in (0, 1)
    }
    assert len(ids) == 8
    assert span_id_of("run", trace_id, task_id="7.0", attempt=0) in ids
    assert TraceContext.read(f"00-{trace_id}-{ids.pop()}-01") is not None
