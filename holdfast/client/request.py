"""What is submitted, in the words of the server: calls of functions, and commands."""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.client.argument_jobs import find_jobs, replace_all
from holdfast.client.job import NOT_A_VALUE, Job
from holdfast.client.task import (
    Dependency,
    GivenOptions,
    TaskCall,
    TaskFunction,
    TaskOptions,
    change_options,
)
from holdfast.errors import Invalid
from holdfast.model import order
from holdfast.model.order import ResultPosition
from holdfast.model.shapes import as_invalid
from holdfast.model.spec import Entrypoint
from holdfast.wire.raw import encode_json
from holdfast.wire.requests import JobRequest

# What a job spec calls otherwise, and what only workers and clients know.
_RENAMED = {"retries": "max_retries_failure", "preemption_retries": "max_retries_preemption"}
_OF_FUNCTIONS = ("pickled", "isolation")
_OF_PLACED_WORK = ("resources", "constraints", "coscheduling", "bundle", "requirements")
QUEUE = "default"

# Names a job to the server: by its id, or by its local name within a graph.
Refer = Callable[[Job[Any]], str]


def by_id(job: Job[Any]) -> str:
    """Name a job by its id."""
    return job.id


def request_call(
    function: TaskFunction[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    inputs: Iterable[Any] | None = None,
    refer: Refer = by_id,
) -> JobRequest:
    """Describe one call of a function, or one for each input, which comes first.

    A job among the arguments is waited for, and its result is what the function is given.
    """
    listed = None if inputs is None else _list(inputs)
    function.check_arguments(args if listed is None else (listed[0], *args), kwargs)
    options = function.options
    if options.name is None:
        options = msgspec.structs.replace(options, name=function.function.__name__)
    given = {"args": args, "kwargs": kwargs}
    jobs = find_jobs(given)
    results = [
        ResultPosition(_steps(given, found.path, pickled=options.pickled), refer(found.job))
        for found in jobs
    ]
    given = replace_all(given, [(found.path, None) for found in jobs])
    if options.pickled:
        # What it waits for is no part of it, and cannot be pickled; nor is what undoes it.
        plain = function.with_options(depends_on=None, compensation=None)
        packed = _pack((plain, given["args"], given["kwargs"]))
        entrypoint, texts = Entrypoint(pickle=packed, results=results), _encode_all(listed, _pack)
    else:
        entrypoint = _name_call(function, given["args"], given["kwargs"], results=results)
        texts = _encode_all(listed)
    return _fill(options, entrypoint, inputs=texts, refer=refer)


def request_command(
    command: Sequence[str] | str,
    options: GivenOptions,
    *,
    inputs: Iterable[Any] | None = None,
    refer: Refer = by_id,
) -> JobRequest:
    """Describe a command: a list of words, or a line for the shell."""
    for name in _OF_FUNCTIONS:
        if name in options:
            raise Invalid(name, "is an option of functions; a command has none of it")
    entrypoint = _describe_command("command", command)
    listed = None if inputs is None else _list(inputs)
    chosen = change_options(TaskOptions(), options)
    return _fill(chosen, entrypoint, inputs=_encode_all(listed), refer=refer)


def _fill(
    options: TaskOptions,
    entrypoint: Entrypoint,
    *,
    inputs: list[msgspec.Raw] | None,
    refer: Refer,
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
    fields["depends_on"] = _list_dependencies(options.depends_on or (), entrypoint, refer)
    if options.compensation is not None:
        fields["compensation"] = _describe_compensation(options.compensation)
    return JobRequest(entrypoint=entrypoint, inputs=inputs, **fields)


def _describe_compensation(given: Any) -> Entrypoint:
    """Describe what undoes a job: a function, which is told of the job first, or a command."""
    if isinstance(given, TaskFunction):
        given = given.with_arguments()
    if not isinstance(given, TaskCall):
        return _describe_command("compensation", given)
    function, args, kwargs = given
    function.check_arguments((None, *args), kwargs)
    if function.options.pickled:
        return Entrypoint(pickle=_pack((function, args, kwargs)))
    return _name_call(function, args, kwargs, results=[])


def _describe_command(field: str, command: Any) -> Entrypoint:
    if isinstance(command, str):
        return Entrypoint(shell=command)
    if isinstance(command, Sequence) and all(isinstance(word, str) for word in command):
        return Entrypoint(command=list(command))
    raise Invalid(field, "holds something that is not text; write numbers as text")


def _list_dependencies(
    given: Iterable[Any], entrypoint: Entrypoint, refer: Refer
) -> list[str | order.Dependency]:
    """List what a job waits for, each once: those whose results it needs, and those it names."""
    wanted: dict[str, order.Condition] = {result.job: "succeeded" for result in entrypoint.results}
    for number, item in enumerate(given):
        field = f"depends_on[{number}]"
        job, condition = item if isinstance(item, Dependency) else (item, "succeeded")
        if isinstance(job, Job):
            job = refer(job)
        elif type(job) is int:
            job = str(job)
        try:
            asked = msgspec.convert({"job": job, "condition": condition}, order.Dependency)
        except msgspec.ValidationError as error:
            raise as_invalid(error, field) from error
        if wanted.setdefault(asked.job, asked.condition) != asked.condition:
            known = wanted[asked.job]
            raise Invalid(field, f"asks for {asked.condition}, but {known} is asked for, too")
    return [
        job if condition == "succeeded" else order.Dependency(job, condition)
        for job, condition in wanted.items()
    ]


def _steps(value: Any, path: Sequence[Any], *, pickled: bool) -> list[str | int]:
    """Write the path to a job as the worker will follow it: the keys of JSON are texts."""
    steps: list[str | int] = []
    for step in path:
        key = step
        if isinstance(value, dict) and not pickled:
            [key] = msgspec.to_builtins({step: None}, str_keys=True)
        if type(key) not in (str, int):
            raise Invalid(
                str(path[0]), f"has a job under the key {step!r}; use a text or a whole number"
            )
        steps.append(key)
        value = value[step]
    return steps


def _name_call(
    function: TaskFunction[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    results: list[ResultPosition],
) -> Entrypoint:
    if function.function.__module__ == "__main__" or "<" in function.path:
        raise Invalid(
            "function",
            f"a worker cannot import {function.path}; put it at the top of a module that "
            "workers find too, or use @task(pickled=True)",
        )
    return Entrypoint(
        function=function.path,
        args=[encode_input(value, f"args[{index}]") for index, value in enumerate(args)],
        kwargs={name: encode_input(value, f"kwargs.{name}") for name, value in kwargs.items()},
        results=results,
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
    return [encode_input(convert(value), f"inputs[{index}]") for index, value in enumerate(inputs)]


def encode_input(value: Any, field: str) -> msgspec.Raw:
    """Write an input as JSON; raises if it cannot be."""
    try:
        return msgspec.Raw(encode_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        if find_jobs(value):
            raise Invalid(field, f"holds a job; {NOT_A_VALUE}") from error
        raise Invalid(
            field, f"cannot be written as JSON ({error}); use @task(pickled=True) for objects"
        ) from error


def _pack(value: Any) -> str:
    import cloudpickle

    return base64.b64encode(cloudpickle.dumps(value)).decode()
