"""Compensations: which comes next, what it is as a job, and what it is told."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint, Limits, Submission
from holdfast.model.work.states import JobState
from holdfast.rules.submitting.submission import complete_submission, parse_inputs, parse_spec
from holdfast.rules.undo import (
    Compensation,
    OpenUndo,
    UndoneTask,
    can_be_undone,
    compensation_of,
    fit_in,
    is_compensated,
    next_undo,
    record_bytes_max,
    record_of_replicas,
    record_of_task,
)

LIMITS = Limits()
ROOM = record_bytes_max(LIMITS)


def an_undo(
    job_id: int, *, failed: bool = False, ended: int = 0, submitted: bool = False, **rest: bool
) -> OpenUndo:
    """Describe a job to be undone that nothing stands in the way of."""
    fields = {"is_released": True, "is_in_use": False} | rest
    return OpenUndo(job_id, submitted, failed, ended, **fields)


def test_what_failed_comes_first_then_the_others_in_reverse_order_of_their_end() -> None:
    undos = [
        an_undo(1, ended=1),
        an_undo(2, ended=3),
        an_undo(3, ended=2),
        an_undo(4, failed=True, ended=0),
        an_undo(5, ended=3),
    ]
    order = []
    while undos:
        first = next_undo(undos)
        assert first is not None
        order.append(first.job_id)
        undos.remove(first)
    assert order == [4, 5, 2, 3, 1]


def test_nothing_comes_while_one_is_under_way_and_nothing_of_nothing() -> None:
    assert next_undo([an_undo(1), an_undo(2, submitted=True)]) is None
    assert next_undo([]) is None


@pytest.mark.parametrize(
    ("undo", "can"),
    [
        (an_undo(1), True),
        (an_undo(1, is_released=False), False),
        (an_undo(1, is_in_use=True), False),
        (an_undo(1, failed=True, is_in_use=True), True),
        (an_undo(1, failed=True, is_released=False), False),
    ],
)
def test_what_still_runs_is_not_undone_nor_what_is_used(undo: OpenUndo, can: bool) -> None:
    assert can_be_undone(undo) is can


@pytest.mark.parametrize(
    ("family", "compensated"),
    [
        ([(JobState.SUCCEEDED, False)], True),
        ([(JobState.RUNNING, False)], False),
        ([(JobState.KILLED, False)], False),
        ([(JobState.DEAD_LETTERED, True)], False),
        ([(JobState.DEAD_LETTERED, False), (JobState.SUCCEEDED, False)], True),
        ([(JobState.DEAD_LETTERED, True), (JobState.SUCCEEDED, False)], False),
        ([(JobState.DEAD_LETTERED, False), (JobState.RUNNING, False)], False),
        ([], False),
    ],
)
def test_a_job_is_compensated_once_every_part_of_it_is(
    family: list[tuple[int, bool]], compensated: bool
) -> None:
    assert is_compensated([Compensation(*item) for item in family]) is compensated


def complete(**fields: Any) -> Submission:
    """Complete a job with a compensation as a submission is."""
    given = {"entrypoint": {"function": "app:work"}, "compensation": {"shell": "undo it"}}
    return complete_submission(Submission(parse_spec(given | fields)), LIMITS)


def test_a_compensation_runs_where_the_job_ran_and_is_a_job_of_its_own() -> None:
    spec = complete(
        queue="q", name="n" * 256, type="t" * 256, owner="o", priority=7, timeout=9.0, replicas=4,
        labels={"a": "b"}, environment={"c": "d"}, max_retries_failure=1, on_timeout="kill",
        on_exhausted="fail", idempotency_key="k", depends_on=["1"], not_before=5.0, lease=60.0,
    ).spec  # fmt: skip
    undo = compensation_of(
        spec, job_id=3, correlation_id="c", trace_id=None, text_length_max=LIMITS.text_length_max
    )
    kept = ("queue", "owner", "priority", "timeout", "labels", "environment", "lease", "backoff")
    for name in kept:
        assert getattr(undo, name) == getattr(spec, name)
    assert undo.entrypoint == Entrypoint(shell="undo it")
    assert undo.type == "t" * 251 + ".undo"
    assert (undo.on_exhausted, undo.on_timeout) == ("dead_letter", "fail")
    assert undo.max_retries_failure == 3
    assert (undo.replicas, undo.compensation, undo.depends_on, undo.not_before) == (
        None,
        None,
        [],
        None,
    )
    done = complete_submission(Submission(undo, ("1",), compensates_job_id=3), LIMITS)
    assert done.spec.idempotency_key == "holdfast:undo:3"


def test_the_keys_of_compensations_are_not_for_users() -> None:
    with pytest.raises(Invalid, match="begins with 'holdfast:'") as refused:
        complete(idempotency_key="holdfast:undo:1")
    assert refused.value.field == "idempotency_key"


@pytest.mark.parametrize(
    ("compensation", "field"),
    [
        ({}, "compensation"),
        ({"command": []}, "compensation.command"),
        ({"function": "nowhere"}, "compensation.function"),
        ({"shell": "x", "args": [1]}, "compensation.args"),
        (
            {"function": "a:b", "args": [1], "results": [{"path": ["args", 0], "job": "1"}]},
            "compensation.results",
        ),
    ],
)
def test_a_compensation_that_could_not_run_is_refused(
    compensation: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        complete(compensation=compensation)
    assert refused.value.field == field


def test_a_record_holds_the_input_and_what_came_of_it() -> None:
    task = UndoneTask(2, 4, '{"order": 7}', "[1.50]", None, ('{"uri": "s3://x"}',))
    assert msgspec.json.decode(record_of_task(9, task, is_pickled=False, bytes_max=ROOM)) == {
        "job_id": "9",
        "task_id": "9.2",
        "state": "SUCCEEDED",
        "input": {"order": 7},
        "args": [],
        "kwargs": {},
        "result": [1.5],
        "outputs": [{"uri": "s3://x"}],
        "error": None,
        "is_pickled": False,
        "pickle": None,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("results", "is_list", "told"),
    [
        (["5"], False, 5), (["5"], True, [5]), (["5", None], True, [5, None]),
        ([None], False, None), ([], True, []), ([], False, None),
    ],
)  # fmt: skip
def test_replicas_are_told_of_together(results: list[str | None], is_list: bool, told: Any) -> None:
    tasks = [UndoneTask(index, 5, None, text, "boom") for index, text in enumerate(results)]
    text = record_of_replicas(
        9, 5, "boom", tasks=tasks, is_list=is_list, is_pickled=False, bytes_max=ROOM
    )
    record = msgspec.json.decode(text)
    assert (record["task_id"], record["state"], record["error"]) == (None, "FAILED", "boom")
    assert record["result"] == told


def test_what_is_too_large_is_left_out_but_never_the_input() -> None:
    limits = Limits(input_bytes_max=1000)
    text = '"' + "i" * 998 + '"'
    output = '{"uri": "' + "o" * 900 + '"}'
    task = UndoneTask(0, 4, text, '"' + "r" * 900 + '"', "e" * 100_000, (output,))
    room = record_bytes_max(limits)
    told = record_of_task(1, task, is_pickled=False, bytes_max=room)
    record = msgspec.json.decode(told)
    assert len(told) <= room
    assert (record["input"], record["outputs"]) == ("i" * 998, [{"uri": "o" * 900}])
    assert (record["result"], record["truncated"]) == (None, True)
    assert len(record["error"]) == 16_000


def test_what_there_is_no_room_for_is_left_out_of_a_task_and_takes_none() -> None:
    task = UndoneTask(0, 5, '"a"', '"ä"', "e" * 300, ("{}",))
    size = 4 + 300 + 2
    assert fit_in(task, size) == (task, 0)
    told, room = fit_in(task, size - 1)
    assert room == size - 1
    assert told == UndoneTask(0, 5, '"a"', None, "e" * 200, (), is_cut=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text('aä"\\\n', max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner),
    max_leaves=5,
)


@settings(max_examples=25, deadline=None)
@given(JSON, JSON, st.integers(0, 300))
def test_a_record_is_json_within_its_bounds_whatever_it_tells_of(
    given: Any, result: Any, room: int
) -> None:
    [text, returned] = parse_inputs([given, result])
    bytes_max = record_bytes_max(Limits(input_bytes_max=0)) + len(text.encode()) + room
    task = UndoneTask(0, 4, text, returned, None)
    told = record_of_task(1, task, is_pickled=False, bytes_max=bytes_max)
    record = msgspec.json.decode(told)
    assert len(told.encode()) <= bytes_max
    assert record["input"] == given
    assert record["truncated"] or record["result"] == result
