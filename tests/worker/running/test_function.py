"""Finding functions, calling them, and putting what came of it into words."""

import base64
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import cloudpickle
import msgspec
import pytest

import holdfast as hf
from holdfast.client.context import Connection, Context, Identity
from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.allowing import CallLimit
from holdfast.worker.running.function import (
    MESSAGE_LENGTH_MAX,
    BadCall,
    Callee,
    Functions,
    arguments_of,
    describe_progress,
    find_function,
)
from tests.worker.workplace import SAMPLES


def _no_connection() -> Connection:
    raise AssertionError("nothing is called here")


def a_context() -> Context:
    identity = Identity(
        server="", task_id="7.0", attempt=0, lease_token=uuid4(), job_name="", num_tasks=1,
        correlation_id="",
    )  # fmt: skip
    return Context(
        identity,
        is_cancelled=lambda: False,
        note_progress=lambda *_: None,
        connection=_no_connection,
    )


def pickled(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Entrypoint:
    packed = cloudpickle.dumps((function, args, kwargs))
    return Entrypoint(pickle=base64.b64encode(packed).decode())


def bad_call(entrypoint: Entrypoint, text: bytes | None = None) -> Any:
    """Expect a call to fail before its function runs; returns how."""
    try:
        callee = find_function(entrypoint)
        raw = msgspec.Raw(text or b"null")
        arguments_of(callee, raw, fan_out=text is not None, context=a_context())
    except BadCall as problem:
        return problem.outcome
    raise AssertionError("the call was good")


def test_a_function_is_found_by_its_path() -> None:
    callee = find_function(Entrypoint(function="os.path:join", args=["a"], kwargs={"x": 1}))
    assert (callee.args, callee.kwargs) == (["a"], {"x": 1})
    assert callee.function("a", "b") == "a/b"
    assert not callee.is_async
    assert callee.isolation == "auto"


def test_a_decorated_function_brings_its_isolation_along() -> None:
    callee = find_function(Entrypoint(function=f"{SAMPLES}:add_in_process"))
    assert callee.isolation == "process"
    assert not isinstance(callee.function, hf.TaskFunction)


def test_a_pickled_function_brings_its_arguments_along() -> None:
    callee = find_function(pickled(lambda a, b: a + b, 1, b=2))
    assert callee.function(*callee.args, **callee.kwargs) == 3
    assert callee.pickled


class Adder:
    """An object that can be called."""

    async def __call__(self, number: int) -> int:
        return number + 1


def test_coroutine_functions_are_known_and_objects_that_give_coroutines() -> None:
    assert find_function(Entrypoint(function=f"{SAMPLES}:add")).is_async
    assert find_function(pickled(Adder())).is_async
    assert not find_function(Entrypoint(function="builtins:len")).is_async


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("no.such.module:f", "ModuleNotFoundError"),
        ("os.path:nothing", "AttributeError"),
        ("os.path:join.x", "AttributeError"),
        ("os:environ", "PermanentError"),
    ],
)
def test_what_cannot_be_found_is_a_failure_to_fetch(path: str, kind: str) -> None:
    outcome = bad_call(Entrypoint(function=path))
    assert (outcome.status, outcome.error_class, outcome.stage) == ("failed", kind, "fetch")


@pytest.mark.parametrize("code", ["raise ValueError('broken')", "import sys; sys.exit(3)", "1 +"])
def test_a_module_that_breaks_while_it_is_imported_is_a_failure_to_fetch(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = bad_call(Entrypoint(function=f"{name}:f"))
    assert (outcome.status, outcome.stage) == ("failed", "fetch")


def test_the_input_comes_first_and_the_context_by_name() -> None:
    callee = find_function(Entrypoint(function=f"{SAMPLES}:report", args=[], kwargs={}))
    context = a_context()
    raw = msgspec.Raw(b'{"a": [1]}')
    args, kwargs = arguments_of(callee, raw, fan_out=True, context=context)
    assert args == [{"a": [1]}]
    assert kwargs == {"ctx": context}
    assert arguments_of(callee, raw, fan_out=False, context=context)[0] == []


def test_an_input_that_is_null_is_an_input() -> None:
    callee = find_function(Entrypoint(function=f"{SAMPLES}:echo"))
    args, _ = arguments_of(callee, msgspec.Raw(b"null"), fan_out=True, context=a_context())
    assert args == [None]


def test_a_call_does_not_change_the_arguments_of_the_next() -> None:
    functions = Functions()
    entrypoint = Entrypoint(function=f"{SAMPLES}:echo")
    for number in range(3):
        callee = functions.find(entrypoint)
        raw = msgspec.Raw(str(number).encode())
        args, _ = arguments_of(callee, raw, fan_out=True, context=a_context())
        assert args == [number]


def test_wrong_arguments_are_the_callers_fault() -> None:
    outcome = bad_call(Entrypoint(function=f"{SAMPLES}:echo", args=[1, 2]))
    assert (outcome.error_class, outcome.stage) == ("ValidationError", "input")
    assert "too many positional arguments" in outcome.error


def unreadable_here() -> None:
    raise RuntimeError("not here")


class Broken:
    """Pickles well and cannot be opened."""

    def __reduce__(self) -> Any:
        return unreadable_here, ()


class Elsewhere:
    """Pickles as something of a module that this worker has not got."""

    def __reduce__(self) -> Any:
        return importlib.import_module, ("no.such.module",)


@pytest.mark.parametrize(
    "packed",
    [b"no pickle", b"", cloudpickle.dumps((len, (Broken(),), {})), cloudpickle.dumps(1)],
    ids=["another file", "empty", "refuses to open", "no call"],
)
def test_a_pickle_that_cannot_be_opened_is_a_parse_error(packed: bytes) -> None:
    outcome = bad_call(Entrypoint(pickle=base64.b64encode(packed).decode()))
    assert (outcome.error_class, outcome.stage) == ("ParseError", "input")


def test_a_pickle_of_a_module_that_is_not_here_may_be_opened_elsewhere() -> None:
    outcome = bad_call(pickled(len, Elsewhere()))
    assert (outcome.error_class, outcome.stage) == ("ModuleNotFoundError", "fetch")


def test_an_input_of_a_module_that_is_not_here_may_be_opened_elsewhere() -> None:
    text = msgspec.json.encode(base64.b64encode(cloudpickle.dumps(Elsewhere())).decode())
    outcome = bad_call(pickled(len), text)
    assert (outcome.error_class, outcome.stage) == ("ModuleNotFoundError", "input")


def test_an_input_that_cannot_be_read_is_a_parse_error() -> None:
    text = msgspec.json.encode(base64.b64encode(b"no pickle").decode())
    outcome = bad_call(pickled(len), text)
    assert (outcome.error_class, outcome.stage) == ("ParseError", "input")


@pytest.mark.parametrize("message", ["x" * 1000, "a\0b", "\ud800", 7])
def test_any_word_about_progress_can_be_told(message: Any) -> None:
    text = describe_progress(0.5, message).message
    assert text is not None
    assert 0 < len(text) <= MESSAGE_LENGTH_MAX
    assert msgspec.json.encode(text)
    assert describe_progress(0.5, None).message is None


def test_functions_are_found_once_and_the_number_kept_is_bounded() -> None:
    functions = Functions(functions_max=2)
    join = functions.find(Entrypoint(function="os.path:join")).parameters
    assert functions.find(Entrypoint(function="os.path:join")).parameters is join
    for name in ("split", "exists"):
        functions.find(Entrypoint(function=f"os.path:{name}"))
    assert functions.find(Entrypoint(function="os.path:join")).parameters is not join


def test_each_job_calls_a_function_with_arguments_of_its_own() -> None:
    functions = Functions()
    first = functions.find(Entrypoint(function="os.path:join", args=[1]))
    second = functions.find(Entrypoint(function="os.path:join", args=[2], kwargs={"a": 3}))
    assert (first.args, second.args, second.kwargs) == ([1], [2], {"a": 3})


@pytest.mark.parametrize("is_pickled", [False, True])
def test_a_compensation_is_told_first_what_it_undoes(is_pickled: bool) -> None:
    def refund(undo: hf.Undo, reason: str) -> tuple[str, Any, str]:
        return undo.job_id, undo.input, reason

    named = Entrypoint(function="os.path:join", args=["late"])
    callee = find_function(pickled(refund, "late") if is_pickled else named)
    raw = msgspec.Raw(b'{"job_id": "4", "state": "FAILED", "input": {"order": 7}}')
    args, _ = arguments_of(callee, raw, fan_out=True, undoes=True, context=a_context())
    assert args == [hf.Undo(job_id="4", state="FAILED", input={"order": 7}), "late"]


def test_nothing_is_called_or_unpickled_beyond_a_limit() -> None:
    limits = {f"{SAMPLES}:echo": CallLimit("north", [f"{SAMPLES}:*"])}
    functions = Functions(lambda each: limits.get(each.function or "", CallLimit("north", ["no"])))
    callee = functions.find(Entrypoint(function=f"{SAMPLES}:echo"))
    packed = pickled(pytest.fail, "it was unpickled").pickle
    for refused in (
        lambda: functions.find(Entrypoint(function="os.path:join")),
        lambda: functions.find(Entrypoint(pickle=packed)),
        lambda: tell_what_it_undoes(callee, pickle=packed, is_pickled=True),
        lambda: tell_what_it_undoes(callee, result=packed, is_pickled=True),
    ):
        with pytest.raises(BadCall, match="worker north") as bad:
            refused()
        assert bad.value.outcome.error_class == "RefusedByWorker"
    assert tell_what_it_undoes(callee, result="plain").result == "plain"


def tell_what_it_undoes(callee: Callee, **fields: Any) -> Any:
    """Call with a record of these fields; returns what the function is given."""
    text = msgspec.json.encode({"job_id": "4", "state": "FAILED"} | fields)
    raw = msgspec.Raw(text)
    return arguments_of(callee, raw, fan_out=True, undoes=True, context=a_context())[0][0]


def test_a_record_that_cannot_be_read_is_a_parse_error() -> None:
    callee = find_function(Entrypoint(function="os.path:join"))
    with pytest.raises(BadCall) as bad:
        arguments_of(callee, msgspec.Raw(b"{}"), fan_out=True, undoes=True, context=a_context())
    assert bad.value.outcome.error_class == "ParseError"
