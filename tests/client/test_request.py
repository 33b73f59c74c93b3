"""What is asked of the server when a function or a command is submitted."""

import base64
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pytest

import holdfast as hf
from holdfast.client.request import request_call, request_command
from holdfast.client.task import GivenOptions, TaskFunction
from holdfast.errors import Invalid
from holdfast.model.workers.resources import Coscheduling, Resources
from holdfast.wire.requests import JobRequest
from tests.client import app


def sent(request: JobRequest) -> Any:
    """Give what goes over the wire, and make sure that the server can read it."""
    text = msgspec.json.encode(request)
    msgspec.json.decode(text, type=JobRequest)
    return msgspec.json.decode(text)


def unpack(text: str) -> Any:
    return cloudpickle.loads(base64.b64decode(text))


def test_a_call_is_a_path_and_json() -> None:
    request = request_call(app.greet, ("Ada",), {"greeting": "hi"})
    assert sent(request) == {
        "entrypoint": {
            "function": "tests.client.app:greet",
            "args": ["Ada"],
            "kwargs": {"greeting": "hi"},
        },
        "name": "greet",
        "queue": "q",
        "max_retries_failure": 2,
    }


def test_every_option_reaches_the_server() -> None:
    function = app.double.with_options(
        queue="other",
        name="Doubling",
        type="maths",
        owner="ada",
        retries=1,
        preemption_retries=2,
        backoff=hf.Backoff(base=0.1),
        timeout=3,
        on_timeout="kill",
        on_exhausted="fail",
        max_task_failures=4,
        lease=45,
        grace=5,
        priority=6,
        concurrency_key=hf.KeyOfInput("customer.id"),
        slots=2,
        not_before=7,
        scheduling_timeout=8,
        labels={"team": "a"},
        environment={"A": "b"},
        idempotency_key="k",
        correlation_id="c",
        isolation="process",
    )
    request = sent(request_call(function, (1,), {}))
    assert request.pop("entrypoint")["args"] == [1]
    assert request == {
        "queue": "other",
        "name": "Doubling",
        "type": "maths",
        "owner": "ada",
        "max_retries_failure": 1,
        "max_retries_preemption": 2,
        "backoff": {"base": 0.1, "factor": 2.0, "ceiling": 60.0},
        "timeout": 3.0,
        "on_timeout": "kill",
        "on_exhausted": "fail",
        "max_task_failures": 4,
        "lease": 45.0,
        "grace": 5.0,
        "priority": 6,
        "concurrency_key": {"input": "customer.id"},
        "slots": 2,
        "not_before": 7.0,
        "scheduling_timeout": 8.0,
        "labels": {"team": "a"},
        "environment": {"A": "b"},
        "idempotency_key": "k",
        "correlation_id": "c",
    }


def test_inputs_may_come_from_anything_that_yields() -> None:
    def names() -> Iterator[str]:
        yield from ("Ada", "Grace")

    request = request_call(app.greet, (), {"greeting": "hi"}, inputs=names())
    assert sent(request)["inputs"] == ["Ada", "Grace"]
    assert request.entrypoint.args == []


def test_the_input_counts_as_the_first_argument() -> None:
    request_call(app.greet, (), {}, inputs=["Ada"])
    with pytest.raises(Invalid, match="too many positional arguments"):
        request_call(app.greet, ("Ada",), {}, inputs=["Grace"])


@pytest.mark.parametrize(
    ("inputs", "problem"), [([], "is empty"), ("abc", "one task per char"), (b"abc", "one task")]
)
def test_inputs_that_cannot_be_meant_are_refused(inputs: Any, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as caught:
        request_call(app.greet, (), {}, inputs=inputs)
    assert caught.value.field == "inputs"


def test_numbers_and_texts_stay_what_they_are() -> None:
    values = [2**70, -1, 0.1, "ä\u2028\U0001f600", None, True, [1, [2]], {"a": {"b": []}}]
    request = request_call(app.echo, (values,), {})
    assert sent(request)["entrypoint"]["args"] == [values]


def endless() -> list[Any]:
    """Make a list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize("value", [object(), math.nan, math.inf, "\ud800", endless(), print])
def test_what_json_cannot_say_is_refused_by_the_name_of_its_parameter(value: Any) -> None:
    with pytest.raises(Invalid, match=r"use @task\(pickled=True\) for objects") as caught:
        request_call(app.double, (value,), {})
    assert caught.value.field == "number"
    with pytest.raises(Invalid) as caught:
        request_call(app.greet, ("Ada",), {"greeting": value})
    assert caught.value.field == "greeting"
    with pytest.raises(Invalid) as caught:
        request_call(app.double, (), {}, inputs=[1, value])
    assert caught.value.field == "inputs[1]"


def test_a_function_that_no_worker_can_import_is_refused() -> None:
    @hf.task
    def local() -> None: ...

    with pytest.raises(Invalid, match=r"<locals>.local; put it at the top of a module") as caught:
        request_call(local, (), {})
    assert caught.value.field == "function"


def test_a_function_of_the_main_program_is_refused() -> None:
    space = {"__name__": "__main__", "hf": hf}
    exec("@hf.task\ndef main() -> None: ...", space)
    function: TaskFunction[..., None] = space["main"]  # type: ignore[assignment]
    with pytest.raises(Invalid, match="cannot import __main__:main"):
        request_call(function, (), {})


def test_a_pickled_call_carries_the_function_and_its_objects() -> None:
    request = request_call(app.second, ((1, Path("x")),), {})
    assert request.entrypoint.function is None
    assert request.entrypoint.pickle is not None
    function, args, kwargs = unpack(request.entrypoint.pickle)
    assert function.options == app.second.options
    assert function.function(*args, **kwargs) == Path("x")


def test_pickled_inputs_are_pickled_one_by_one() -> None:
    pairs = [(1, Path("x")), (2, {3})]
    request = request_call(app.second, (), {}, inputs=pairs)
    assert [unpack(text) for text in sent(request)["inputs"]] == pairs


def test_a_local_function_can_be_pickled() -> None:
    @hf.task(pickled=True)
    def local(number: int) -> int:
        return number + 1

    request = request_call(local, (41,), {})
    assert request.name == "local"
    function, args, _ = unpack(request.entrypoint.pickle or "")
    assert function.function(*args) == 42


def a_job(job_id: str) -> hf.Job[Any]:
    """Hold a job of a server that is never asked."""
    return hf.Job(hf.Client("http://127.0.0.1:9"), job_id, 1)


def test_a_job_among_the_arguments_is_waited_for_and_its_result_asked_for() -> None:
    first, second = a_job("7"), a_job("8")
    given = [1, (first, {2: second, "x": first})]
    request = sent(request_call(app.greet, (given,), {"greeting": second}))
    assert request["depends_on"] == ["7", "8"]
    assert request["entrypoint"]["args"] == [[1, [None, {"2": None, "x": None}]]]
    assert request["entrypoint"]["kwargs"] == {"greeting": None}
    assert request["entrypoint"]["results"] == [
        {"path": ["args", 0, 1, 0], "job": "7"},
        {"path": ["args", 0, 1, 1, "2"], "job": "8"},
        {"path": ["args", 0, 1, 1, "x"], "job": "7"},
        {"path": ["kwargs", "greeting"], "job": "8"},
    ]
    assert given[1] == (first, {2: second, "x": first})


def test_a_job_among_pickled_arguments_is_taken_out_of_the_pickle() -> None:
    function = app.second.with_options(depends_on=[a_job("9")])
    request = request_call(function, (({3: a_job("7")}, 2),), {})
    _, args, _ = unpack(request.entrypoint.pickle or "")
    assert args == (({3: None}, 2),)
    assert sent(request)["entrypoint"]["results"] == [{"path": ["args", 0, 0, 3], "job": "7"}]
    assert request.depends_on == ["7", "9"]
    with pytest.raises(Invalid, match=r"under the key \(1, 2\); use a text"):
        request_call(app.second, ({(1, 2): a_job("7")},), {})


@pytest.mark.parametrize("function", [app.greet, app.second])
def test_a_job_among_inputs_is_refused(function: TaskFunction[..., Any]) -> None:
    for inputs in (["Ada", a_job("7")], ["Ada", [a_job("7")]]):
        with pytest.raises(Invalid, match=r"takes the position of an argument.*not among inputs"):
            request_call(function, (), {}, inputs=inputs)
    request = request_call(app.greet, (), {"greeting": a_job("7")}, inputs=["Ada"])
    assert request.depends_on == ["7"]


def test_what_a_job_waits_for_is_named_by_handle_id_or_condition() -> None:
    named: list[Any] = [
        a_job("7"),
        "8",
        9,
        hf.Dependency(a_job("10"), "failed"),
        hf.Dependency("11", "ended"),
    ]
    request = sent(request_command(["true"], {"depends_on": named}))
    assert request["depends_on"] == [
        "7",
        "8",
        "9",
        {"job": "10", "condition": "failed"},
        {"job": "11", "condition": "ended"},
    ]


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ([hf.Dependency("7", "ended")], "asks for ended, but succeeded is asked for, too"),
        ([hf.Dependency("8", "done")], "Invalid enum value 'done'"),  # type: ignore[arg-type]
        ([None], "Expected `str`, got `null`"),
    ],
)
def test_what_cannot_be_waited_for_is_refused_by_its_place(named: list[Any], problem: str) -> None:
    function = app.double.with_options(depends_on=named)
    with pytest.raises(Invalid, match=problem):
        request_call(function, (a_job("7"),), {})


def test_a_command_is_words_or_a_line() -> None:
    words = request_command(["echo", "a b"], {"queue": "q", "retries": 1})
    assert sent(words) == {
        "entrypoint": {"command": ["echo", "a b"]},
        "queue": "q",
        "max_retries_failure": 1,
    }
    line = request_command("echo a | cat", {}, inputs=[1, {"a": 2}])
    assert sent(line) == {
        "entrypoint": {"shell": "echo a | cat"},
        "queue": "default",
        "inputs": [1, {"a": 2}],
    }
    assert sent(request_command(["true"], {"replicas": 3}))["replicas"] == 3


def test_what_asks_something_of_its_workers_is_placed_unless_a_queue_is_named() -> None:
    wants: GivenOptions = {"resources": Resources(cpu=2, memory="4GB")}
    placed = sent(request_command(["true"], wants))
    assert placed == {
        "entrypoint": {"command": ["true"]},
        "resources": {"cpu": 2.0, "memory": "4GB"},
    }
    assert sent(request_command(["true"], {**wants, "queue": "q"}))["queue"] == "q"
    assert "queue" not in sent(request_command(["true"], {"queue": None}))
    gang = sent(request_command(["true"], {"replicas": 4, "coscheduling": Coscheduling("rack")}))
    assert gang["coscheduling"] == {"group_by": "rack"}
    assert "queue" not in gang


@pytest.mark.parametrize(
    ("given", "field", "seconds"),
    [
        ({"delay": timedelta(minutes=5)}, "start_delay", 300.0),
        ({"delay": 2.5}, "start_delay", 2.5),
        ({"at": datetime(2026, 11, 18, 9, tzinfo=UTC)}, "not_before", 1_794_992_400.0),
        ({"at": datetime(2026, 11, 18, 9)}, "not_before", datetime(2026, 11, 18, 9).timestamp()),
        ({"at": 7.0}, "not_before", 7.0),
        ({"not_before": 7.0}, "not_before", 7.0),
        ({"at": None}, "not_before", None),
    ],
)
def test_when_a_job_may_start_is_a_span_or_a_time(
    given: GivenOptions, field: str, seconds: float | None
) -> None:
    for request in (
        request_command(["true"], given),
        request_call(app.double.with_options(**given), (1,), {}),
    ):
        said = sent(request)
        assert {name: said.get(name) for name in ("start_delay", "not_before")} == {
            "start_delay": None,
            "not_before": None,
            field: seconds,
        }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"delay": 1.0, "at": 2.0}, "^delay: goes without at; give one of the two"),
        ({"at": 1.0, "not_before": 2.0}, "^at: goes without not_before"),
        ({"at": datetime(1, 1, 1)}, "^at: 0001-01-01 00:00:00 is no time that this machine knows"),
        ({"delay": -1}, "^delay: is -1 seconds; use 0 or more"),
        ({"delay": timedelta(days=400)}, "^delay: is 3.456e.07 seconds; .* a year at most"),
        ({"delay": "5m"}, r"^delay: is '5m'; use seconds or a timedelta"),
        ({"at": "09:00"}, r"^at: is '09:00'; use a datetime, or seconds since 1970"),
        ({"at": date(2100, 1, 1)}, r"^at: is datetime.date\(2100, 1, 1\); use a datetime"),
    ],
)
def test_a_time_that_is_none_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        request_command(["true"], given)


def test_a_command_of_other_things_than_text_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        request_command(["sleep", 1], {})  # type: ignore[list-item]
    assert caught.value.field == "command"


def test_options_of_functions_are_no_options_of_a_command() -> None:
    with pytest.raises(Invalid) as caught:
        request_command(["true"], {"pickled": True})
    assert caught.value.field == "pickled"
    with pytest.raises(Invalid) as caught:
        request_command(["true"], {"retires": 3})  # type: ignore[typeddict-unknown-key]
    assert caught.value.field == "retires"


@hf.task
def refund(undo: hf.Undo, reason: str = "none") -> None:
    """Undo a call, as it is asked for below."""


@pytest.mark.parametrize(
    ("compensation", "told"),
    [
        (refund, {"function": f"{__name__}:refund"}),
        (
            refund.with_arguments(reason="late"),
            {"function": f"{__name__}:refund", "kwargs": {"reason": "late"}},
        ),
        (["undo", "it"], {"command": ["undo", "it"]}),
        ("undo it", {"shell": "undo it"}),
    ],
)
def test_a_compensation_is_a_function_or_a_command(compensation: Any, told: Any) -> None:
    call = request_call(app.greet.with_options(compensation=compensation), ("Ada",), {})
    assert sent(call)["compensation"] == told
    assert sent(request_command("do it", {"compensation": compensation}))["compensation"] == told


def test_a_pickled_compensation_is_packed_with_its_arguments() -> None:
    packed = refund.with_options(pickled=True).with_arguments("late")
    call = request_call(app.greet.with_options(compensation=packed), ("Ada",), {})
    function, args, kwargs = unpack(sent(call)["compensation"]["pickle"])
    assert (function.path, args, kwargs) == (refund.path, ("late",), {})


@pytest.mark.parametrize(
    ("compensation", "field"),
    [(refund.with_arguments(1, 2, 3), "args"), (["undo", 1], "compensation"), (7, "compensation")],
)
def test_a_compensation_that_cannot_be_called_is_refused(compensation: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        request_call(app.greet.with_options(compensation=compensation), ("Ada",), {})
    assert refused.value.field == field
