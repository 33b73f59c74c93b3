"""Arguments that would not arrive as they are sent: refused, by the name of their parameter."""

from collections import OrderedDict
from datetime import date, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest

import holdfast as hf
from holdfast.client.functions.parameters import Parameter
from holdfast.client.request import request_call
from holdfast.errors import Invalid
from tests.client import app
from tests.client.test_request import a_job


class Colour(IntEnum):
    """A number with a name."""

    RED = 1


@hf.task
def load(rows: list) -> None:  # type: ignore[type-arg]
    """Take rows, of whatever kind."""


@hf.task
def save(when: date | str) -> None:
    """Take what JSON cannot tell apart."""


def refused(function: hf.TaskFunction[..., Any], *args: Any, **kwargs: Any) -> Invalid:
    """Expect a call to be refused; returns how."""
    with pytest.raises(Invalid) as caught:
        request_call(function, args, kwargs)
    return caught.value


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (b"abc", "b'abc' would arrive as 'YWJj'"),
        (date(2030, 1, 31), "datetime.date(2030, 1, 31) would arrive as '2030-01-31'"),
        (Decimal("9.90"), "Decimal('9.90') would arrive as '9.90'"),
        (UUID(int=7), "would arrive as '00000000-0000-0000-0000-000000000007'"),
        ({1}, "{1} would arrive as [1]"),
        ({"a": [{1: 2}]}, "{1: 2} would arrive as {'1': 2}"),
        ({1: 2, "1": 3}, "would arrive as {'1': 3}"),
        ([1, (2, 3)], "(2, 3) would arrive as [2, 3]"),
        (app.Order(UUID(int=7), date(2030, 1, 31), Decimal(1)), "would arrive as {"),
    ],
)
def test_what_would_arrive_changed_is_refused_with_the_remedy(value: Any, change: str) -> None:
    problem = refused(app.echo, value)
    assert problem.field == "value"
    assert change in problem.problem
    assert "annotate the parameter with its type" in problem.problem
    assert refused(app.echo, 0, 1, value).field == "more[1]"
    assert refused(app.echo, 0, key=value).field == "key"
    with pytest.raises(Invalid, match=r"inputs\[1\]: as 'value', .* would arrive as"):
        request_call(app.echo, (), {}, inputs=[0, value])


@pytest.mark.parametrize("value", [OrderedDict(a=1), Colour.RED, True, 2**70, [[]], {"a": None}])
def test_what_arrives_as_an_equal_value_is_taken(value: Any) -> None:
    request_call(app.echo, (value,), {"more": value})


def test_what_does_not_fit_an_annotation_is_refused() -> None:
    problem = refused(app.double, "21")
    assert problem.field == "number"
    assert problem.problem == "does not fit its annotation, int: Expected `int`, got `str`"
    day = datetime(2030, 1, 31)
    assert refused(app.count_days, [day]).field == "days"


def test_an_argument_that_cannot_be_stored_is_named() -> None:
    problem = refused(app.echo, 1, key=["a\x00"])
    assert (problem.field, problem.problem) == (
        "key",
        "contains a NUL character, which cannot be stored; remove it",
    )
    request_call(app.echo, ("a\\u0000",), {})  # no NUL, but how one is written


def test_an_annotation_that_says_too_little_is_named() -> None:
    problem = refused(load, [(1, 2)])
    assert "(1, 2) would arrive as [1, 2]; say so in its annotation, list," in problem.problem
    problem = refused(save, date(2030, 1, 31))
    assert "cannot be converted to its annotation, datetime.date | str" in problem.problem


def test_an_argument_in_which_results_are_missing_is_judged_when_they_are_there() -> None:
    request = request_call(app.count_days, ([a_job("7"), "no day"],), {})
    assert request.depends_on == ["7"]
    assert refused(app.echo, [a_job("7"), b"abc"]).field == "value"


def test_parameters_are_named_in_the_order_of_the_call() -> None:
    shape = app.echo.check_arguments((1, 2), {"key": 3})
    named = [*shape.args, *shape.kwargs.values()]
    assert [each.name for each in named if isinstance(each, Parameter)] == [
        "value",
        "more[0]",
        "key",
    ]
