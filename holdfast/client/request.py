"""What is submitted, in the words of the server: calls of functions, and commands."""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.client.task import GivenOptions, TaskFunction, TaskOptions, change_options
from holdfast.errors import Invalid
from holdfast.model.spec import Entrypoint
from holdfast.wire.raw import encode_json
from holdfast.wire.requests import JobRequest

# What a job spec calls otherwise, and what only workers and clients know.
_RENAMED = {"retries": "max_retries_failure", "preemption_retries": "max_retries_preemption"}
_OF_FUNCTIONS = ("pickled", "isolation")
_OF_PLACED_WORK = ("resources", "constraints", "coscheduling", "bundle", "requirements")
QUEUE = "default"


def request_call(
    function: TaskFunction[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    inputs: Iterable[Any] | None = None,
) -> JobRequest:
    """Describe one call of a function, or one for each input, which comes first."""
    listed = None if inputs is None else _list(inputs)
    function.check_arguments(args if listed is None else (listed[0], *args), kwargs)
    options = function.options
    if options.name is None:
        options = msgspec.structs.replace(options, name=function.function.__name__)
    if options.pickled:
        entrypoint = Entrypoint(pickle=_pack((function, args, kwargs)))
        return _fill(options, entrypoint, inputs=_encode_all(listed, _pack))
    return _fill(options, _name_call(function, args, kwargs), inputs=_encode_all(listed))


def request_command(
    command: Sequence[str] | str,
    options: GivenOptions,
    *,
    inputs: Iterable[Any] | None = None,
) -> JobRequest:
    """Describe a command: a list of words, or a line for the shell."""
    for name in _OF_FUNCTIONS:
        if name in options:
            raise Invalid(name, "is an option of functions; a command has none of it")
    if isinstance(command, str):
        entrypoint = Entrypoint(shell=command)
    elif all(isinstance(word, str) for word in command):
        entrypoint = Entrypoint(command=list(command))
    else:
        raise Invalid("command", "holds something that is not text; write numbers as text")
    listed = None if inputs is None else _list(inputs)
    chosen = change_options(TaskOptions(), options)
    return _fill(chosen, entrypoint, inputs=_encode_all(listed))


def _fill(
    options: TaskOptions, entrypoint: Entrypoint, *, inputs: list[msgspec.Raw] | None
) -> JobRequest:
    """Take what a job spec knows; what was left open stays open."""
    if options.queue is msgspec.UNSET:
        is_placed = any(getattr(options, name) is not None for name in _OF_PLACED_WORK)
        options = msgspec.structs.replace(options, queue=None if is_placed else QUEUE)
    fields = {
        _RENAMED.get(name, name): value
        for name, value in msgspec.structs.asdict(options).items()
        if value is not None and name not in _OF_FUNCTIONS
    }
    return JobRequest(entrypoint=entrypoint, inputs=inputs, **fields)


def _name_call(
    function: TaskFunction[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Entrypoint:
    if function.function.__module__ == "__main__" or "<" in function.path:
        raise Invalid(
            "function",
            f"a worker cannot import {function.path}; put it at the top of a module that "
            "workers find too, or use @task(pickled=True)",
        )
    return Entrypoint(
        function=function.path,
        args=[_encode(value, f"args[{place}]") for place, value in enumerate(args)],
        kwargs={name: _encode(value, f"kwargs.{name}") for name, value in kwargs.items()},
    )


def _list(inputs: Iterable[Any]) -> list[Any]:
    if isinstance(inputs, str | bytes):
        raise Invalid("inputs", "is one text, and would be one task per character; give a list")
    listed = list(inputs)
    if not listed:
        raise Invalid("inputs", "is empty; give at least one input")
    return listed


def _encode_all(
    inputs: list[Any] | None, convert: Callable[[Any], Any] = lambda value: value
) -> list[msgspec.Raw] | None:
    if inputs is None:
        return None
    return [_encode(convert(value), f"inputs[{place}]") for place, value in enumerate(inputs)]


def _encode(value: Any, field: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(encode_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            field, f"cannot be written as JSON ({error}); use @task(pickled=True) for objects"
        ) from error


def _pack(value: Any) -> str:
    import cloudpickle

    return base64.b64encode(cloudpickle.dumps(value)).decode()
