"""What is announced of functions: parameters, options, and what they are for."""

from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.client.functions.describing import describe, describe_all
from holdfast.client.task import decorated
from tests.client import app


@hf.task(queue="q", compensation=["undo", 7])  # type: ignore[list-item]
def broken() -> None:
    """Be undone by a command that is none."""


@hf.task(queue="q")
def odd(value: Any) -> None:
    """Be annotated with what cannot be worked out."""


odd.function.__annotations__["value"] = "1 / 0"


def test_parameters_are_described_but_for_the_context() -> None:
    name, greeting = describe(app.greet).parameters
    assert (name.name, name.required, name.annotation) == ("name", True, "str")
    assert name.schema == {"type": "string"}
    assert (greeting.name, greeting.required) == ("greeting", False)
    assert (name.default, msgspec.json.decode(greeting.default or "")) == (None, "hello")
    assert not name.positional_only
    value, more, named = describe(app.echo).parameters
    assert (value.required, value.annotation, value.schema) == (True, None, None)
    assert [(each.name, each.required, each.is_rest) for each in (more, named)] == [
        ("more", False, True),
        ("named", False, True),
    ]
    order, *_, where, _ = describe(app.describe).parameters
    assert order.positional_only
    assert "$defs" in (order.schema or {})
    assert (where.annotation, where.schema) == ("Path", None)


def test_options_are_said_in_the_words_of_a_spec() -> None:
    said = describe(app.greet.with_options(timeout=3, idempotency_key="k"))
    assert msgspec.to_builtins(said.options) == {
        "queue": "q",
        "max_retries_failure": 2,
        "timeout": 3.0,
    }
    assert describe(app.double.with_options(queue=None)).options.queue is None
    assert said.path == "tests.client.app:greet"


def test_all_that_workers_can_import_is_described(caplog: pytest.LogCaptureFixture) -> None:
    @hf.task
    def local() -> None: ...

    functions: list[hf.TaskFunction[..., Any]] = [odd, app.greet, local, broken]
    assert [each.path for each in describe_all(functions)] == [app.greet.path]
    assert f"{broken.path} is not announced: Invalid: compensation" in caplog.text
    assert f"{odd.path} is not announced: ZeroDivisionError" in caplog.text


def test_every_decorated_function_is_known_by_its_path() -> None:
    assert decorated["tests.client.app:greet"] is app.greet
