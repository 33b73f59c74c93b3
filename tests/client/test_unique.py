"""What makes a call unique, by the names of its parameters."""

from typing import Any

import pytest

import holdfast as hf
from holdfast.client.request import request_call, request_command, request_options
from holdfast.client.task import Outgoing
from holdfast.errors import Invalid
from holdfast.model.submitting.unique import Unique


@hf.task(queue="q")
def work(user: int, order: dict[str, Any], region: str = "eu", *more: Any) -> None:
    """Take some arguments."""


def rule_of(unique: Any, *args: Any, **kwargs: Any) -> Unique | None:
    """Describe one call, and say what makes it unique."""
    return request_call(work.with_options(unique=unique), args, kwargs).unique


def test_true_compares_all_arguments() -> None:
    assert rule_of(True, 1, {}) == Unique()
    assert rule_of(False, 1, {}) is None
    assert rule_of(None, 1, {}) is None
    assert request_command(["true"], {"unique": True}).unique == Unique()


@pytest.mark.parametrize(
    ("args", "kwargs", "paths"),
    [
        ((7, {"id": 1}), {}, ["args[0]", "args[1].id"]),
        ((7,), {"order": {"id": 1}}, ["args[0]", "kwargs.order.id"]),
        ((), {"user": 7, "order": {"id": 1}}, ["kwargs.user", "kwargs.order.id"]),
    ],
)
def test_parameters_are_found_where_the_call_has_them(
    args: Any, kwargs: Any, paths: list[str]
) -> None:
    assert rule_of(Unique(arguments=["user", "order.id"]), *args, **kwargs) == Unique(
        arguments=paths
    )


def test_with_a_default_the_values_are_told() -> None:
    rule = Unique(arguments=["region", "order.lines[1]", "kwargs.user"], on_conflict="refuse")
    asked = rule_of(rule, user=7, order={"lines": ["a", "b"]})
    assert asked == Unique(values=["eu", "b", 7], on_conflict="refuse")


def test_paths_of_the_server_are_passed_on() -> None:
    assert rule_of(Unique(arguments=["args[0]"]), 1, {}) == Unique(arguments=["args[0]"])
    assert rule_of(Unique(arguments=["more"]), 1, {}) == Unique(arguments=["more"])


def test_in_a_map_the_inputs_are_named_as_such() -> None:
    rule = Unique(arguments=["order", "inputs[0]"])
    function = work.with_options(unique=rule)
    asked = request_call(function, ({"id": 1},), {}, inputs=[1, 2])
    assert asked.unique == Unique(arguments=["args[0]", "inputs[0]"])
    function = work.with_options(unique=Unique(arguments=["user"]))
    with pytest.raises(Invalid, match="name inputs"):
        request_call(function, ({"id": 1},), {}, inputs=[1, 2])


@pytest.mark.parametrize(
    ("unique", "problem"),
    [
        (Unique(arguments=["order.id"]), "which the call does not have"),
        (Unique(arguments=["order[0]", "region"]), "which the call does not have"),
    ],
)
def test_what_is_not_there_is_refused_where_it_must_be_told(unique: Unique, problem: str) -> None:
    rule = Unique(arguments=[*(unique.arguments or []), "region"])
    with pytest.raises(Invalid, match=problem):
        rule_of(rule, 1, {})


def test_a_result_that_is_not_known_yet_is_refused() -> None:
    with pytest.raises(Invalid, match="result of job 9"):
        rule_of(Unique(arguments=["user"]), hf.Job(hf.Client("http://127.0.0.1:9"), "9", 1), {})


def test_what_is_pickled_has_no_names() -> None:
    function = work.with_options(unique=Unique(arguments=["user"]), pickled=True)
    with pytest.raises(Invalid, match=r"unique\.values"):
        request_call(function, (1, {}), {})


def test_it_is_not_announced() -> None:
    assert request_options(work.with_options(unique=True)).unique is None


def test_it_is_an_option_of_the_decorator() -> None:
    unique = hf.task(unique=hf.Unique(arguments=["user"], period=3600.0))(work.function)
    assert isinstance(unique.submit, Outgoing)
    with pytest.raises(Invalid, match="unique"):
        hf.task(unique="yes")  # type: ignore[call-overload]
