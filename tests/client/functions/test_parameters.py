"""Parameters of functions: by shape of call, with annotations of every kind."""

import functools
import inspect
import pickle
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client.functions.parameters import SHAPES_MAX, DoesNotFit, Parameters
from tests.client import app

if TYPE_CHECKING:
    from elsewhere import Missing  # type: ignore[import-not-found]


def parameters_of(function: Any) -> Parameters:
    return Parameters(function, inspect.signature(function))


def test_values_are_read_by_position_and_by_name() -> None:
    def function(first: date, /, second: int, *more: date, third: set[int], **named: date) -> None:
        raise AssertionError("nobody calls it")

    given: dict[str, Any] = {"third": [1], "x": "2030-01-02"}
    args, kwargs = parameters_of(function).read(["2030-01-01", 5, "2030-01-03"], given)
    assert args == [date(2030, 1, 1), 5, date(2030, 1, 3)]
    assert kwargs == {"third": {1}, "x": date(2030, 1, 2)}
    assert given == {"third": [1], "x": "2030-01-02"}


def test_the_parameter_of_a_value_that_does_not_fit_is_named() -> None:
    parameters = parameters_of(app.count_days.function)
    with pytest.raises(DoesNotFit, match=r"days: .*list\[datetime.date\]: .*at `\$\[1\]`"):
        parameters.read([["2030-01-01", "never"]], {})
    with pytest.raises(TypeError, match="too many positional arguments"):
        parameters.read([[], []], {})


def test_what_comes_before_the_arguments_is_left_alone() -> None:
    assert parameters_of(app.next_day.function).read(["not a day"], {}, since=1)[0] == ["not a day"]


def test_a_default_of_none_may_be_given() -> None:
    def function(day: date = None) -> None:  # type: ignore[assignment] # noqa: RUF013
        raise AssertionError("nobody calls it")

    assert parameters_of(function).read([None], {}) == ([None], {})


def test_an_annotation_that_only_type_checkers_know_is_as_good_as_none() -> None:
    def function(one: "Missing", two: "date") -> "Missing":
        raise AssertionError("nobody calls it")

    parameters = parameters_of(function)
    assert parameters.read([{"a": 1}, "2030-01-01"], {})[0] == [{"a": 1}, date(2030, 1, 1)]
    assert parameters.returns.read("x") == "x"


def test_annotations_of_a_wrapped_function_are_found() -> None:
    def wrap(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    wrapped = parameters_of(wrap(app.next_day.function))
    assert wrapped.read(["2030-01-01"], {})[0] == [date(2030, 1, 1)]


def test_shapes_are_looked_at_once_and_the_number_kept_is_bounded() -> None:
    parameters = parameters_of(app.echo.function)
    first = parameters.shape(1, ())
    assert parameters.shape(1, ()) is first
    for number in range(SHAPES_MAX):
        parameters.shape(1, (f"name_{number}",))
    assert parameters.shape(1, ()) is not first


def test_parameters_are_pickled_without_what_was_found_out() -> None:
    parameters = parameters_of(pickle.loads)
    assert parameters.shape(1, ())
    copied = pickle.loads(pickle.dumps(parameters))
    assert copied.function is pickle.loads
    assert copied.shape(1, ()) is not parameters.shape(1, ())
