"""What makes a job unique: checked, so that no slip makes one job of all, and filled in."""

from typing import Any

import pytest

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.rules.submitting.submission import complete_submission, parse_inputs, parse_spec
from holdfast.rules.submitting.unique import check_unique, complete_unique


def a_job(rule: dict[str, Any], inputs: list[Any] | None = None, **fields: Any) -> Submission:
    """Describe a unique call."""
    spec = {
        "entrypoint": {"function": "a:b", "args": [7], "kwargs": {"user": {"id": 1}}},
        "queue": "q",
        "unique": rule,
    }
    return Submission(parse_spec(spec | fields), None if inputs is None else parse_inputs(inputs))


@pytest.mark.parametrize(
    ("rule", "states"),
    [
        ({}, ["pending", "running"]),
        ({"period": 60}, ["pending", "running", "succeeded"]),
        ({"on_conflict": "refuse"}, ["pending", "running"]),
        ({"on_conflict": "replace"}, ["pending"]),
        ({"on_conflict": "replace", "period": 60}, ["pending"]),
        ({"states": ["pending", "running", "failed"]}, ["pending", "running", "failed"]),
    ],
)
def test_the_states_follow_from_what_is_asked(rule: dict[str, Any], states: list[str]) -> None:
    complete = complete_submission(a_job(rule), Limits()).spec
    assert complete.unique is not None
    assert complete.unique.states == states
    assert complete_unique(complete.unique) == complete.unique


def test_a_job_that_says_nothing_is_not_unique() -> None:
    assert complete_unique(None) is None
    plain = Submission(parse_spec({"entrypoint": {"function": "a:b"}}))
    check_unique(plain, Limits())
    assert complete_submission(plain, Limits()).spec.unique is None


@pytest.mark.parametrize(
    ("path", "inputs"),
    [("args", None), ("args[0]", None), ("kwargs.user.id", None), ("inputs[1].a", [1, {"a": 2}])],
)
def test_a_path_leads_to_an_argument(path: str, inputs: list[Any] | None) -> None:
    check_unique(a_job({"arguments": [path]}, inputs), Limits())


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("unique.arguments[1]", {"arguments": ["args[0]", "args[1]"]}),
        ("unique.arguments[0]", {"arguments": ["kwargs.usr"]}),
        ("unique.arguments[0]", {"arguments": ["user"]}),
        ("unique.arguments[0]", {"arguments": ["inputs[0]"]}),
        ("unique.arguments", {"arguments": ["args"] * 101}),
        ("unique.values", {"arguments": ["args"], "values": [1]}),
        ("unique.values", {"values": ["\x00"]}),
        ("unique.values", {"values": [float("nan")]}),
        ("unique.period", {"period": 0.5}),
        ("unique.period", {"period": float("nan")}),
        ("unique.states", {"states": ["running"]}),
        ("unique.states", {"states": ["pending", "succeeded"]}),
        ("unique.states", {"on_conflict": "replace", "states": ["pending", "running"]}),
        ("unique.keep_start", {"keep_start": True}),
    ],
)
def test_what_cannot_be_meant_is_refused(field: str, rule: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        complete_submission(a_job(rule), Limits())
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("unique.colour", {"colour": 1}),
        ("unique.on_conflict", {"on_conflict": "last"}),
        ("unique.states[1]", {"states": ["pending", "RUNNING"]}),
    ],
)
def test_what_is_unknown_is_named(field: str, rule: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        a_job(rule)
    assert refused.value.field in (field, "unique.colour", "unique")


def test_a_large_job_is_not_unique() -> None:
    with pytest.raises(Invalid) as refused:
        check_unique(a_job({}, replicas=10_001), Limits())
    assert refused.value.field == "unique"


def test_values_are_bounded() -> None:
    with pytest.raises(TooLarge):
        complete_submission(a_job({"values": ["x" * (1 << 20)]}), Limits())
