"""What a submission may look like, and what is filled in where it says nothing."""

import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.spec import JobSpec, Limits, Submission, TaskTerms
from holdfast.rules.submitting.submission import (
    PRIORITY_MAX,
    check_json,
    check_text,
    complete_submission,
    parse_inputs,
    parse_spec,
    terms_of,
)
from tests.rules.submissions import (
    FUNCTION,
    HALF_SURROGATE,
    TEXTS,
    YEAR,
    completed,
    nested,
    refused,
)

# Shapes and types


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "entrypoint"),
        ({"entrypoint": FUNCTION, "colour": "red"}, "colour"),
        ({"entrypoint": FUNCTION, "inputs": [1]}, "inputs"),
        ({"entrypoint": FUNCTION, "parent_job_id": 1}, "parent_job_id"),
        ({"entrypoint": FUNCTION, "replay_of": 1}, "replay_of"),
        ({"entrypoint": FUNCTION | {"colour": 1}}, "entrypoint.colour"),
        ({"entrypoint": FUNCTION, "backoff": {"colour": 1}}, "backoff.colour"),
        ({"entrypoint": "ls"}, "entrypoint"),
        ({"entrypoint": None}, "entrypoint"),
        ({"entrypoint": {"command": "ls"}}, "entrypoint.command"),
        ({"entrypoint": {"command": ["ls", 1]}}, "entrypoint.command[1]"),
        ({"entrypoint": {"function": 1}}, "entrypoint.function"),
        ({"entrypoint": FUNCTION | {"args": {"a": 1}}}, "entrypoint.args"),
        ({"entrypoint": FUNCTION | {"kwargs": [1]}}, "entrypoint.kwargs"),
        ({"entrypoint": FUNCTION, "labels": {"a": 1}}, "labels"),
        ({"entrypoint": FUNCTION, "labels": {1: "a"}}, "labels"),
        ({"entrypoint": FUNCTION, "labels": ["a"]}, "labels"),
        ({"entrypoint": FUNCTION, "environment": {"A": None}}, "environment"),
        ({"entrypoint": FUNCTION, "on_exhausted": "explode"}, "on_exhausted"),
        ({"entrypoint": FUNCTION, "on_exhausted": "x - at `$.name`"}, "on_exhausted"),
        ({"entrypoint": FUNCTION, "on_timeout": "retry"}, "on_timeout"),
        ({"entrypoint": FUNCTION, "backoff": 3}, "backoff"),
        ({"entrypoint": FUNCTION, "backoff": {"base": "1"}}, "backoff.base"),
        ({"entrypoint": FUNCTION, HALF_SURROGATE: 1}, "spec"),
        ({"entrypoint": FUNCTION, 1: 1}, "spec"),
        (None, "spec"),
        ("entrypoint", "spec"),
    ],
    ids=ascii,
)
def test_a_wrong_shape_is_refused_by_the_name_of_its_field(fields: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_spec(fields)
    assert caught.value.field == field


WHOLE_NUMBERS = [
    "replicas",
    "max_attempts",
    "max_retries_failure",
    "max_retries_preemption",
    "max_task_failures",
    "priority",
    "slots",
]
DURATIONS = [
    "scheduling_timeout", "timeout", "lease", "grace", "not_before", "start_delay", "start_rate",
]  # fmt: skip


def test_the_tables_of_this_file_know_every_field() -> None:
    others = {"entrypoint", "environment", "labels", "backoff", "on_exhausted", "on_timeout"}
    others |= {"depends_on", "compensation", "outputs", "verbose_events", "concurrency_key"}
    placed = {"resources", "constraints", "coscheduling", "bundle", "requirements"}
    others |= {"unique", "expires", "expires_at", "chain", "on_failure"}  # in files of their own
    known = {*TEXTS, *WHOLE_NUMBERS, *DURATIONS} | others | placed  # placed: see test_placing.py
    assert known == set(JobSpec.__struct_fields__)


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize("value", [1, True, b"x", ["x"], {}])
def test_a_text_is_a_text(field: str, value: object) -> None:
    assert refused(**{field: value}).field == field


@pytest.mark.parametrize("field", WHOLE_NUMBERS)
@pytest.mark.parametrize("value", [True, "1", 1.5, math.nan, [1]])
def test_a_whole_number_is_neither_a_boolean_nor_a_text_nor_a_fraction(
    field: str, value: object
) -> None:
    assert refused(**{field: value}).field == field


@pytest.mark.parametrize("field", DURATIONS)
@pytest.mark.parametrize("value", [True, "60", [60], {"seconds": 60}])
def test_a_duration_is_a_number_of_seconds(field: str, value: object) -> None:
    assert refused(**{field: value}).field == field


def test_a_whole_number_of_seconds_is_a_duration_too() -> None:
    assert completed(lease=45).lease == 45.0


# Inputs


def test_inputs_are_written_as_json_texts_of_their_own() -> None:
    assert parse_inputs([1, "a", None, {"b": [True]}]) == ("1", '"a"', "null", '{"b":[true]}')


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, b"x", {1, 2}, 1j, {b"x": 1}, nested(100_000), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_an_input_that_json_lacks_is_refused_by_its_place(value: object) -> None:
    with pytest.raises(Invalid) as caught:
        parse_inputs([1, value])
    assert caught.value.field == "inputs[1]"


def test_an_input_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(Invalid) as caught:
        parse_inputs([value])
    assert caught.value.field == "inputs[0]"


@pytest.mark.parametrize(
    "text",
    ["", "{", "nul", "NaN", "1 2", "'a'", '"\x00"', '"\\u0000"', '{"\\u0000":1}',
     '"\\ud800"', f'"{HALF_SURROGATE}"', "[" * 101 + "]" * 101, "[" * 100_000 + "]" * 100_000,
     '{"a":' * 101 + "1" + "}" * 101],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_an_input_text_that_is_not_plain_json_is_refused_by_its_place(text: str) -> None:
    assert refused(("1", text)).field == "inputs[1]"


@pytest.mark.parametrize(
    "text", ["1", '"ä"', '"\\\\u0000"', "null", "[" * 100 + "]" * 100, '"\\ud83d\\ude00"']
)
def test_plain_json_is_accepted(text: str) -> None:
    completed((text,))


def test_an_oversized_input_is_refused_with_its_size_and_the_limit() -> None:
    limits = Limits(input_bytes_max=10)
    completed(('"12345678"',), limits)
    with pytest.raises(TooLarge) as caught:
        completed(('"12345678"', '"ä2345678"'), limits)
    assert (caught.value.field, caught.value.size, caught.value.limit) == ("inputs[1]", 11, 10)
    assert "11 bytes is over the limit of 10 bytes" in str(caught.value)


def test_no_input_at_all_and_too_many_are_refused() -> None:
    assert refused(()).field == "inputs"
    with pytest.raises(TooLarge) as caught:
        completed(("1", "2", "3"), Limits(tasks_max=2))
    assert caught.value.field == "inputs"


def test_replicas_and_inputs_do_not_go_together() -> None:
    assert refused(("1",), replicas=1).field == "replicas"


def test_an_oversized_spec_is_refused() -> None:
    with pytest.raises(TooLarge) as caught:
        completed(None, Limits(spec_bytes_max=200), labels={"a": "x" * 200})
    assert caught.value.field == "spec"
    arguments = {"function": "a:b", "args": ["x" * (1 << 20)]}
    assert refused(entrypoint=arguments).field == "spec"


# Defaults


def test_placed_work_gets_the_defaults_of_placed_work() -> None:
    spec = completed()
    assert spec.queue is None
    assert (spec.replicas, spec.max_task_failures) == (1, 0)
    assert (spec.max_retries_failure, spec.max_retries_preemption) == (0, 100)
    assert (spec.on_exhausted, spec.on_timeout) == ("fail", "kill")
    assert (spec.lease, spec.grace) == (60.0, 30.0)
    backoff = terms_of(spec).backoff
    assert (backoff.base, backoff.factor, backoff.ceiling) == (0.5, 2.0, 60.0)
    assert (spec.timeout, spec.scheduling_timeout, spec.not_before) == (None, None, None)
    assert (terms_of(spec).priority, spec.owner) == (0, "anonymous")


def test_claimed_work_gets_the_defaults_of_claimed_work() -> None:
    spec = completed(queue="q")
    assert (spec.max_retries_failure, spec.max_retries_preemption) == (0, 5)
    assert (spec.on_exhausted, spec.on_timeout) == ("dead_letter", "fail")
    assert (spec.lease, spec.grace) == (30.0, 30.0)


def test_inputs_have_no_replicas_and_no_bound_on_failures_unless_given() -> None:
    assert completed(("1", "2")).replicas is None
    assert completed(("1", "2")).max_task_failures is None
    assert completed(("1", "2"), max_task_failures=0).max_task_failures == 0


def test_what_is_said_wins_over_every_default() -> None:
    said = {
        "name": "n", "type": "t", "owner": "o", "replicas": 3, "max_retries_failure": 7,
        "max_retries_preemption": 0, "max_task_failures": 2, "on_exhausted": "dead_letter",
        "on_timeout": "fail", "lease": 33.0, "grace": 0.0, "priority": -5,
    }  # fmt: skip
    spec = completed(**said)
    assert {field: getattr(spec, field) for field in said} == said


@pytest.mark.parametrize(("attempts", "retries"), [(1, 0), (2, 1), (10_001, 10_000)])
def test_max_attempts_means_one_more_than_the_retries(attempts: int, retries: int) -> None:
    spec = completed(max_attempts=attempts)
    assert (spec.max_retries_failure, spec.max_attempts) == (retries, None)


def test_max_attempts_and_max_retries_failure_do_not_go_together() -> None:
    assert refused(max_attempts=2, max_retries_failure=1).field == "max_attempts"


SPECS = some.fixed_dictionaries(
    {
        "entrypoint": some.sampled_from(
            [
                FUNCTION,
                {"function": "a:" + "f" * 300, "args": [1, None], "kwargs": {"k": "v"}},
                {"command": ["/bin/true", "x"]},
                {"shell": "make all"},
                {"pickle": "gASV"},
            ]
        )
    },
    optional={
        "name": some.sampled_from(["n", "ü"]),
        "queue": some.just("q"),
        "labels": some.just({"a": "b"}),
        "max_attempts": some.integers(1, 9),
        "max_retries_preemption": some.integers(0, 9),
        "max_task_failures": some.integers(0, 9),
        "on_exhausted": some.sampled_from(["fail", "dead_letter"]),
        "lease": some.floats(30, 120),
        "timeout": some.floats(0.001, YEAR),
        "priority": some.integers(-PRIORITY_MAX, PRIORITY_MAX),
    },
)


@given(
    fields=SPECS,
    shape=some.none() | some.integers(1, 5) | some.just(("1", "2")),
    limits=some.sampled_from([Limits(), Limits(lease_seconds_max=130, text_length_max=40)]),
)
def test_completing_a_complete_submission_changes_nothing(
    fields: dict[str, Any], shape: Any, limits: Limits
) -> None:
    if isinstance(shape, int):
        fields = fields | {"replicas": shape}
    submission = Submission(parse_spec(fields), shape if isinstance(shape, tuple) else None)
    once = complete_submission(submission, limits)
    assert complete_submission(once, limits) == once
    assert once.num_tasks == submission.num_tasks
    stored = msgspec.json.decode(msgspec.json.encode(once.spec), type=JobSpec)
    assert stored == once.spec


def test_links_to_other_jobs_pass_through() -> None:
    submission = Submission(parse_spec({"entrypoint": FUNCTION}), None, 7, 8)
    complete = complete_submission(submission, Limits())
    assert (complete.parent_job_id, complete.replay_of) == (7, 8)


# What the rest uses


def test_the_terms_are_what_the_complete_spec_says() -> None:
    spec = completed(queue="q", priority=3, timeout=5, type="t", backoff={"base": 1})
    terms = terms_of(spec)
    for field in set(TaskTerms.__struct_fields__) - {"is_compensation"}:
        assert getattr(terms, field) == getattr(spec, field)


def test_a_spec_with_holes_has_no_terms() -> None:
    with pytest.raises(AssertionError):
        terms_of(parse_spec({"entrypoint": FUNCTION}))


def test_check_text_and_check_json_name_the_field_they_are_given() -> None:
    with pytest.raises(Invalid) as text:
        check_text("reason", "\x00", 10)
    with pytest.raises(Invalid) as json:
        check_json("result", "{", 10)
    assert (text.value.field, json.value.field) == ("reason", "result")


@given(some.text())
def test_any_text_is_stored_or_refused_by_its_name(text: str) -> None:
    with suppress(Invalid):
        check_text("reason", text, 100)
        assert "\x00" not in text
        assert text.encode().decode() == text
