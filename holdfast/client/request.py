"""What is submitted, in the words of the server: calls of functions, and commands."""

import base64
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.client.argument_jobs import find_jobs, replace_all
from holdfast.client.codec import (
    PayloadCodec,
    check_key,
    check_unique,
    default_codec,
    encode_request,
)
from holdfast.client.context import current
from holdfast.client.functions.arguments import encode_input, write_argument
from holdfast.client.functions.parameters import Shape
from holdfast.client.job import Job
from holdfast.client.keys import find_key
from holdfast.client.named_arguments import NamedArguments
from holdfast.client.task import (
    Dependency,
    GivenOptions,
    TaskCall,
    TaskFunction,
    TaskOptions,
    change_options,
)
from holdfast.client.unique import find_unique
from holdfast.errors import Invalid
from holdfast.model.shapes import as_invalid
from holdfast.model.submitting import order
from holdfast.model.submitting.order import ResultPosition
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.submitting.unique import Unique
from holdfast.wire.requests import JobRequest

# What a job spec calls otherwise, and what only workers and clients know.
_RENAMED = {"retries": "max_retries_failure", "preemption_retries": "max_retries_preemption"}
_OF_FUNCTIONS = ("pickled", "isolation", "batch", "within", "schedule", "tz")
_OF_TIMES = ("delay", "at", "not_before")
_OF_MOMENTS = (*_OF_TIMES, "expires", "expires_at")
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
    codec: PayloadCodec | None = None,
) -> JobRequest:
    """Describe one call of a function, or one for each input, which comes first.

    A job among the arguments is waited for, and its result is what the function is given.
    """
    listed = None if inputs is None else _list(inputs)
    shape = function.check_arguments(args if listed is None else (listed[0], *args), kwargs)
    options = function.options
    if options.name is None:
        options = msgspec.structs.replace(options, name=function.function.__name__)
    if codec is not None:  # before its arguments become values that the server can read
        check_unique(codec, _unique_of(options))
        check_key(codec, options.concurrency_key)
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
        texts = None
        if listed is not None:
            first = shape.args[0]
            texts = [write_argument(first, value, f"inputs[{i}]") for i, value in enumerate(listed)]
        entrypoint = _name_call(
            function, given["args"], given["kwargs"], shape=shape, results=results
        )
    call = NamedArguments(
        function, entrypoint, shape=shape, num_args=len(args), has_inputs=listed is not None
    )
    options = msgspec.structs.replace(
        options,
        unique=find_unique(_unique_of(options), call),
        concurrency_key=find_key(options.concurrency_key, call, texts),
    )
    request = _fill(options, entrypoint, inputs=texts, refer=refer)
    return encode_request(codec, request)


def describe_call(
    function: TaskFunction[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> JobRequest:
    """Describe one call where there is no client, encoded by the codec that one would have."""
    return request_call(function, args, kwargs, codec=default_codec(current.get()))


def _unique_of(options: TaskOptions) -> Unique | None:
    unique = options.unique
    if isinstance(unique, bool):
        return Unique() if unique else None
    return unique


def request_options(function: TaskFunction[Any, Any]) -> JobRequest:
    """Describe how the jobs of a function run, apart from what they are called with."""
    # A worker does not announce what makes a call unique: who submits from elsewhere says it.
    options = msgspec.structs.replace(function.options, unique=None)
    return _fill(options, Entrypoint(function=function.path), inputs=None, refer=by_id)


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
        if value is not None and name not in (*_OF_FUNCTIONS, *_OF_MOMENTS)
    }
    if entrypoint.function is not None and options.queue is None:
        fields["placed"] = True
    fields |= _describe_start(options) | _describe_end(options)
    fields["unique"] = _unique_of(options)
    fields["depends_on"] = _list_dependencies(options.depends_on or (), entrypoint, refer)
    if options.compensation is not None:
        fields["compensation"] = _describe_compensation(options.compensation)
    return JobRequest(entrypoint=entrypoint, inputs=inputs, **fields)


def _describe_start(options: TaskOptions) -> dict[str, float]:
    """Say when a job may start, in seconds; a time without a zone is one of this machine's."""
    given = [name for name in _OF_TIMES if getattr(options, name) is not None]
    if len(given) > 1:
        raise Invalid(given[0], f"goes without {given[1]}; give one of the two")
    if isinstance(options.delay, timedelta):
        return {"start_delay": options.delay.total_seconds()}
    if options.delay is not None:
        return {"start_delay": options.delay}
    at = options.not_before if options.at is None else options.at
    if at is None:
        return {}
    return {"not_before": _timestamp("at", at)}


def _describe_end(options: TaskOptions) -> dict[str, float]:
    """Say until when a job has to be started, in seconds."""
    fields: dict[str, float] = {}
    if isinstance(options.expires, timedelta):
        fields["expires"] = options.expires.total_seconds()
    elif options.expires is not None:
        fields["expires"] = options.expires
    if options.expires_at is not None:
        fields["expires_at"] = _timestamp("expires", options.expires_at)
    return fields


def _timestamp(field: str, at: datetime | float) -> float:
    try:
        return at.timestamp() if isinstance(at, datetime) else at
    except (OverflowError, ValueError, OSError) as error:
        raise Invalid(field, f"{at} is no time that this machine knows: {error}") from error


def _describe_compensation(given: Any) -> Entrypoint:
    """Describe what undoes a job: a function, which is told of the job first, or a command."""
    if isinstance(given, TaskFunction):
        given = given.with_arguments()
    if not isinstance(given, TaskCall):
        return _describe_command("compensation", given)
    function, args, kwargs = given
    shape = function.check_arguments((None, *args), kwargs)
    if function.options.pickled:
        return Entrypoint(pickle=_pack((function, args, kwargs)))
    return _name_call(function, args, kwargs, shape=shape, results=[])


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
    shape: Shape,
    results: list[ResultPosition],
) -> Entrypoint:
    """Write a call; of the parameters, the last ones are for `args`: others may come before."""
    if not function.is_importable:
        raise Invalid(
            "function",
            f"a worker cannot import {function.path}; put it at the top of a module that "
            "workers find too, or use @task(pickled=True)",
        )
    awaited = {(result.path[0], result.path[1]) for result in results}
    positional = shape.args[len(shape.args) - len(args) :]
    return Entrypoint(
        function=function.path,
        args=[
            write_argument(each, value, each.name, awaits_results=("args", index) in awaited)
            for index, (each, value) in enumerate(zip(positional, args, strict=True))
        ],
        kwargs={
            name: write_argument(
                shape.kwargs[name], value, name, awaits_results=("kwargs", name) in awaited
            )
            for name, value in kwargs.items()
        },
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


def _pack(value: Any) -> str:
    import cloudpickle

    return base64.b64encode(cloudpickle.dumps(value)).decode()
