"""What tasks left behind: values, and errors of the class that was raised."""

import base64
import builtins
from typing import Any

import cloudpickle
import msgspec
import pytest

import holdfast as hf
from holdfast import errors
from holdfast.client.outcome import open_result, open_results, rebuild_failure
from holdfast.errors import TaskFailed
from holdfast.wire.status import TaskResult


def succeeded(value: Any, **more: Any) -> TaskResult:
    return TaskResult(
        task_id="7.0",
        state="TASK_STATE_SUCCEEDED",
        result=msgspec.Raw(msgspec.json.encode(value)),
        is_finished=True,
        **more,
    )


def ended(state: str, task_id: str = "7.0", **more: Any) -> TaskResult:
    return TaskResult(task_id=task_id, state=f"TASK_STATE_{state}", is_finished=True, **more)


def failed(kind: str | None, error: str | None = "what it said") -> TaskResult:
    return ended("FAILED", error=error, error_class=kind)


@pytest.mark.parametrize("value", [None, 0, "ä", 2**70, [1, {"a": None}]])
def test_a_value_comes_back(value: Any) -> None:
    assert open_result(succeeded(value)) == value


def test_a_pickled_value_comes_back() -> None:
    packed = base64.b64encode(cloudpickle.dumps({1, 2})).decode()
    assert open_result(succeeded(packed, pickled=True)) == {1, 2}
    assert open_result(succeeded(None, pickled=True)) is None


def test_a_text_is_not_unpickled_unless_it_was_asked_for() -> None:
    packed = base64.b64encode(cloudpickle.dumps({1, 2})).decode()
    assert open_result(succeeded(packed)) == packed


def test_a_failure_says_which_task_and_why() -> None:
    with pytest.raises(TaskFailed) as caught:
        open_result(failed(None))
    assert str(caught.value) == "task 7.0 is FAILED: what it said"
    assert (caught.value.task_id, caught.value.state) == ("7.0", "FAILED")
    assert caught.value.error == "what it said"


KINDS = [
    kind
    for module in (builtins, errors)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and kind.__module__ == module.__name__
    and not issubclass(kind, (StopIteration, StopAsyncIteration, BaseExceptionGroup))
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_failure_is_also_of_the_class_that_was_raised(kind: type[Exception]) -> None:
    failure = rebuild_failure(failed(kind.__name__))
    assert isinstance(failure, TaskFailed)
    assert isinstance(failure, kind)
    assert str(failure) == "task 7.0 is FAILED: what it said"
    assert failure.error == "what it said"
    with pytest.raises(kind):
        raise failure


def test_a_failure_shows_as_the_class_that_was_raised() -> None:
    kind = type(rebuild_failure(failed("KeyError")))
    assert (kind.__module__, kind.__qualname__) == ("builtins", "KeyError")
    assert type(rebuild_failure(failed("KeyError"))) is kind


@pytest.mark.parametrize(
    "name",
    ["StopIteration", "StopAsyncIteration", "KeyboardInterrupt", "SystemExit", "CancelledError"],
)
def test_what_means_something_to_python_is_a_plain_failure(name: str) -> None:
    assert type(rebuild_failure(failed(name))) is TaskFailed


@pytest.mark.parametrize(
    "name", ["ExceptionGroup", "ParseError", "print", "__doc__", "", None, "TaskFailed"]
)
def test_what_is_no_class_we_know_is_a_plain_failure(name: str | None) -> None:
    assert type(rebuild_failure(failed(name))) is TaskFailed


def test_a_task_without_an_error_has_a_plain_failure() -> None:
    failure = rebuild_failure(ended("KILLED"))
    assert (type(failure), str(failure)) == (TaskFailed, "task 7.0 is KILLED")


def test_results_come_in_order() -> None:
    assert open_results([succeeded(1), succeeded(2)]) == [1, 2]
    assert open_results([]) == []


def test_of_many_failures_the_first_is_raised() -> None:
    found = [succeeded(1), ended("FAILED", "7.1"), ended("FAILED", "7.2")]
    with pytest.raises(TaskFailed, match=r"task 7\.1 is FAILED"):
        open_results(found)


def test_a_failure_counts_before_what_followed_from_it() -> None:
    found = [ended("KILLED", "7.0"), succeeded(1), ended("DEAD_LETTERED", "7.2")]
    with pytest.raises(hf.TaskFailed, match=r"task 7\.2 is DEAD_LETTERED"):
        open_results(found)
    with pytest.raises(hf.TaskFailed, match=r"task 7\.0 is KILLED"):
        open_results(found[:2])
