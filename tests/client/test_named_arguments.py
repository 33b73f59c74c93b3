"""Parameters are found by their names: where a call has them, or by what they are without one."""

from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.client.named_arguments import NamedArguments, follow
from holdfast.model.submitting.order import ResultPosition
from holdfast.model.submitting.spec import Entrypoint

ORDER = {"id": 7}


@hf.task(queue="q")
def work(user: int, order: Any = ORDER, *more: Any, ctx: hf.Context, **rest: Any) -> None:
    """Take arguments of all kinds."""


def named(args: list[Any], kwargs: dict[str, Any], *, has_inputs: bool = False) -> NamedArguments:
    """Name the arguments of one call, or of one for each input."""
    given = [0, *args] if has_inputs else args
    return NamedArguments(
        work,
        Entrypoint(
            function="app:work",
            args=args,
            kwargs=kwargs,
            results=[ResultPosition(["args", 1, "id"], "9")],
        ),
        shape=work.parameters.shape(len(given), ("ctx", *kwargs)),
        num_args=len(args),
        has_inputs=has_inputs,
    )


def test_a_parameter_is_where_the_call_has_it() -> None:
    call = named([1], {"order": {}, "colour": "red"})
    assert call.names == ["user", "order"]
    assert call.place("user") == ("args", "0")
    assert call.place("order") == ("kwargs", "order")
    assert call.place("colour") == ("kwargs", "colour")
    assert call.place("ctx") is None
    assert (call.has("colour"), call.has("size"), call.has("ctx")) == (True, False, False)
    assert call.of_inputs is None


def test_in_a_map_the_first_parameter_is_of_the_inputs() -> None:
    call = named([{"id": 8}], {}, has_inputs=True)
    assert call.of_inputs == "user"
    assert call.place("user") is None
    assert call.has("user")
    assert call.place("order") == ("args", "0")
    assert named(["order", "third"], {}).place("more[0]") is None
    assert named([1, "order", "third"], {}).place("more[0]") == ("args", "2")


def test_what_was_not_given_is_its_default() -> None:
    assert follow(named([1], {}).default("order"), ["id"]) == 7


def test_a_path_is_followed_into_values_and_texts() -> None:
    text = msgspec.Raw(b'{"lines": [{"id": 1}, null], "none": null}')
    call = named([text], {"order": ORDER})
    assert call.follow(["args", "0", "lines", "0", "id"]) == 1
    assert call.follow(["kwargs", "order"]) == ORDER
    assert call.follow(["args", "0", "none"]) is None
    for steps in (["lines", "2"], ["lines", "x"], ["line"], ["lines", "0", "id", "0"]):
        assert call.follow(["args", "0", *steps]) is msgspec.UNSET


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (["none", "id"], None),
        (["lines", "1", "id"], None),
        (["none"], None),
        (["line", "id"], msgspec.UNSET),
    ],
)
def test_a_null_on_the_way_may_end_it(steps: list[str], found: Any) -> None:
    given = {"lines": [1, None], "none": None}
    assert follow(given, steps, ends_at_null=True) is found
    assert follow(given, [*steps, "x"]) is msgspec.UNSET
    assert follow(None, steps, ends_at_null=True) is msgspec.UNSET


def test_the_result_of_another_job_is_awaited_above_it_and_below() -> None:
    call = named([1, ORDER], {})
    for steps in (["args", "1"], ["args", "1", "id"], ["args", "1", "id", "x"]):
        assert call.awaited_job(steps) == "9"
    for steps in (["args", "0"], ["args", "1", "name"], ["kwargs", "id"]):
        assert call.awaited_job(steps) is None
