"""What the fields of a submission may hold; a refusal names the field."""

import math
from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.spec import JobSpec, Limits
from holdfast.rules.submitting.submission import (
    NESTING_MAX,
    PRIORITY_MAX,
)
from tests.rules.submissions import (
    FUNCTION,
    HALF_SURROGATE,
    TEXTS,
    YEAR,
    completed,
    nested,
    refused,
    repr_short,
)

# Entrypoints


@pytest.mark.parametrize(
    ("entrypoint", "field"),
    [
        ({}, "entrypoint"),
        ({"command": ["ls"], "shell": "ls"}, "entrypoint"),
        ({"function": "a:b", "pickle": "gASV"}, "entrypoint"),
        ({"command": []}, "entrypoint.command"),
        ({"command": ["", "x"]}, "entrypoint.command"),
        ({"shell": ""}, "entrypoint.shell"),
        ({"shell": " \n\t"}, "entrypoint.shell"),
        ({"pickle": ""}, "entrypoint.pickle"),
        ({"command": ["ls"], "args": [1]}, "entrypoint.args"),
        ({"shell": "ls", "kwargs": {"a": 1}}, "entrypoint.kwargs"),
        ({"command": ["ls", "a\x00b"]}, "entrypoint"),
        ({"shell": "ls \x00"}, "entrypoint"),
        ({"function": "a:b", "args": [1, ["\x00"]]}, "entrypoint.args[1]"),
        ({"function": "a:b", "kwargs": {"a": 1, "b": "\x00"}}, "entrypoint.kwargs.b"),
        ({"function": "a:b", "kwargs": {"\x00": 1}}, "entrypoint"),
        ({"command": [HALF_SURROGATE]}, "entrypoint"),
        ({"shell": HALF_SURROGATE}, "entrypoint"),
        ({"function": "a:b", "args": [HALF_SURROGATE]}, "entrypoint"),
        ({"function": "a:b", "args": [math.nan]}, "entrypoint.args"),
        ({"function": "a:b", "args": [math.inf]}, "entrypoint.args"),
        ({"function": "a:b", "args": [1j]}, "entrypoint.args"),
        ({"function": "a:b", "args": [{1, 2}]}, "entrypoint.args"),
        ({"function": "a:b", "kwargs": {"a": b"x"}}, "entrypoint.kwargs"),
        ({"function": "a:b", "args": [nested(NESTING_MAX)]}, "entrypoint.args"),
        ({"function": "a:b", "args": [nested(100_000)]}, "entrypoint.args"),
        ({"function": "a:b", "kwargs": {"a": nested(NESTING_MAX)}}, "entrypoint.kwargs"),
    ],
    ids=repr_short,
)
def test_a_wrong_entrypoint_is_refused(entrypoint: dict[str, Any], field: str) -> None:
    assert refused(entrypoint=entrypoint).field == field


@pytest.mark.parametrize(
    "function",
    ["", "work", "app:", ":work", "app.work", "a..b:c", ".a:b", "a.:b", "a:b.", "a:b:c", "a b:c",
     "1a:b", "a:1b", "a:<lambda>", "a:f.<locals>.g", "a:b\n", "a-b:c"],
    ids=repr,
)  # fmt: skip
def test_a_function_is_named_by_its_import_path(function: str) -> None:
    assert refused(entrypoint={"function": function}).field == "entrypoint.function"


@pytest.mark.parametrize("function", ["a:b", "app.jobs:Work.run", "_a._b:_c", "größe:übung"])
def test_import_paths_that_python_could_follow_are_accepted(function: str) -> None:
    assert completed(entrypoint={"function": function}).entrypoint.function == function


@pytest.mark.parametrize(
    ("entrypoint", "name"),
    [
        ({"function": "app.jobs:work"}, "work"),
        ({"function": "app.jobs:Work.run"}, "Work.run"),
        ({"command": ["/usr/bin/python3", "x.py"]}, "python3"),
        ({"command": ["ls"]}, "ls"),
        ({"command": ["/"]}, "command"),
        ({"shell": "  make  -j2 all"}, "make"),
        ({"pickle": "gASV"}, "pickle"),
    ],
)
def test_without_a_name_job_and_type_are_called_after_what_runs(
    entrypoint: dict[str, Any], name: str
) -> None:
    spec = completed(entrypoint=entrypoint)
    assert (spec.name, spec.type) == (name, name)


@pytest.mark.parametrize(
    "entrypoint",
    [{"function": "a:" + "b" * 999}, {"command": ["b" * 999]}, {"shell": "b" * 999 + " x"}],
    ids=str,
)
def test_a_name_taken_from_what_runs_is_cut_to_what_a_name_may_be(
    entrypoint: dict[str, Any],
) -> None:
    assert completed(entrypoint=entrypoint).name == "b" * 256


def test_arguments_that_json_can_hold_are_kept() -> None:
    arguments = [1, -(10**30), 0.5, "ä\\u0000", None, True, [[]], {"a": {}}]
    spec = completed(entrypoint=FUNCTION | {"args": arguments, "kwargs": {"k": arguments}})
    assert spec.entrypoint.args == arguments
    assert msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec) == spec


# Texts


@pytest.mark.parametrize("field", TEXTS)
def test_texts_that_cannot_be_stored_are_refused(field: str) -> None:
    assert "NUL" in refused(**{field: "a\x00"}).problem
    assert "surrogate" in refused(**{field: "a" + HALF_SURROGATE}).problem
    assert refused(**{field: ""}).field == field
    too_long = refused(**{field: "a" * 257})
    assert isinstance(too_long, TooLarge)
    assert (too_long.field, too_long.size, too_long.limit) == (field, 257, 256)
    assert getattr(completed(**{field: "a" * 256}), field) == "a" * 256


@pytest.mark.parametrize("queue", ["a b", "-a", "é", "a\n", "a@b", "/a"])
def test_a_queue_has_a_plain_name(queue: str) -> None:
    assert refused(queue=queue).field == "queue"


@pytest.mark.parametrize("queue", ["a", "0", "Mail-High.v2:eu/west_1"])
def test_plain_queue_names_are_accepted(queue: str) -> None:
    assert completed(queue=queue).queue == queue


@pytest.mark.parametrize("field", ["labels", "environment"])
def test_pairs_are_checked_name_and_value(field: str) -> None:
    assert refused(**{field: {"": "x"}}).field == field
    assert refused(**{field: {"a\x00": "x"}}).field == field
    assert refused(**{field: {HALF_SURROGATE: "x"}}).field == field
    assert refused(**{field: {"a" * 257: "x"}}).field == field
    assert refused(**{field: {"a": "\x00"}}).field == f"{field}.a"
    assert refused(**{field: {"a": HALF_SURROGATE}}).field == f"{field}.a"
    assert isinstance(refused(**{field: {"a": "x" * (64 * 1024 + 1)}}), TooLarge)
    assert getattr(completed(**{field: {"a": "", "b": "ü"}}), field) == {"a": "", "b": "ü"}


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("", "concurrency_key"),
        ("x" * 257, "concurrency_key"),
        ({"input": "a..b"}, "concurrency_key.input"),
        ({"input": "a."}, "concurrency_key.input"),
        ({"input": "x" * 257}, "concurrency_key.input"),
    ],
    ids=repr,
)
def test_a_key_of_a_limit_is_a_text_or_a_path_into_the_input(key: Any, field: str) -> None:
    assert completed(concurrency_key="customer 7").concurrency_key == "customer 7"
    for path in ("items.0.id", ""):
        assert completed(concurrency_key={"input": path}).concurrency_key is not None
    assert refused(concurrency_key=key).field == field


# Numbers


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("max_retries_failure", 0, 10_000),
        ("max_retries_preemption", 0, 10_000),
        ("max_attempts", 1, 10_001),
        ("max_task_failures", 0, 10_000_000),
        ("replicas", 1, 10_000_000),
        ("priority", -PRIORITY_MAX, PRIORITY_MAX),
        ("slots", 1, 1000),
    ],
)
def test_a_whole_number_has_its_range(field: str, least: int, most: int) -> None:
    for value in (least, most):
        completed(**{field: value})
    for value in (least - 1, most + 1, 10**30, -(10**30), 10**5000):
        assert refused(**{field: value}).field == field


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("lease", 30.0, 120.0),
        ("timeout", 0.001, YEAR),
        ("scheduling_timeout", 0.001, YEAR),
        ("grace", 0.0, 86_400.0),
        ("not_before", 0.0, 253_370_764_800.0),
        ("start_delay", 0.0, YEAR),
        ("start_rate", 1 / 86_400, 10_000.0),
    ],
)
def test_a_duration_has_its_range(field: str, least: float, most: float) -> None:
    for value in (least, most):
        assert getattr(completed(**{field: value}), field) == value
    below, above = math.nextafter(least, -math.inf), math.nextafter(most, math.inf)
    for value in (below, above, -1.0, math.nan, math.inf, -math.inf, 10**400):
        assert refused(**{field: value}).field == field


@pytest.mark.parametrize("field", ["start_delay", "start_rate"])
def test_a_pace_has_no_time_of_its_own(field: str) -> None:
    problem = refused(**{field: 1.0, "not_before": 1.0})
    assert (problem.field, "use start_delay" in str(problem)) == (field, True)


@pytest.mark.parametrize(
    ("backoff", "field"),
    [
        ({"base": -0.1}, "backoff.base"),
        ({"base": math.nan}, "backoff.base"),
        ({"base": 86_401, "ceiling": 86_402}, "backoff.base"),
        ({"factor": 0.99}, "backoff.factor"),
        ({"factor": 101}, "backoff.factor"),
        ({"factor": math.inf}, "backoff.factor"),
        ({"base": 2, "ceiling": 1.9}, "backoff.ceiling"),
        ({"ceiling": 86_401}, "backoff.ceiling"),
        ({"ceiling": math.nan}, "backoff.ceiling"),
    ],
    ids=str,
)
def test_a_backoff_that_shrinks_or_explodes_is_refused(backoff: Any, field: str) -> None:
    assert refused(backoff=backoff).field == field


def test_an_operator_may_widen_the_range_of_leases() -> None:
    wide = Limits(lease_seconds_min=1.0, lease_seconds_max=900.0)
    assert completed(None, wide, lease=1.0).lease == 1.0
    assert completed(None, wide, lease=900.0).lease == 900.0


def test_a_lease_of_placed_work_outlives_two_heartbeats() -> None:
    limits = Limits(lease_seconds_min=1.0, placed_lease_seconds_min=10.0)
    assert completed(None, limits, lease=10.0).lease == 10.0
    assert completed(None, limits, queue="q", lease=1.0).lease == 1.0
    with pytest.raises(Invalid) as refused_lease:
        completed(None, limits, lease=9.9)
    assert refused_lease.value.field == "lease"
    assert "use at least 10, or name a queue" in refused_lease.value.problem


@pytest.mark.parametrize(
    ("limits", "lease"),
    [
        (Limits(), 60.0),
        (Limits(placed_lease_seconds_min=100.0), 100.0),
        (Limits(lease_seconds_min=90.0), 90.0),
        (Limits(lease_seconds_max=45.0), 45.0),
    ],
)
def test_the_default_lease_stays_within_the_limits(limits: Limits, lease: float) -> None:
    assert completed(None, limits).lease == lease
