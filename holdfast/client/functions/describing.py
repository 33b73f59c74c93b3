"""Functions as they are announced: their parameters, their options, and what they are for."""

import inspect
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.client.functions.kinds import Kind
from holdfast.client.request import request_options
from holdfast.client.task import CONTEXT_PARAMETER, TaskFunction
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions, FunctionParameter

log = logging.getLogger("holdfast.worker")
SCHEMA_BYTES_MAX = 10_000
DOC_LENGTH_MAX = 200
DEFAULT_LENGTH_MAX = 200
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def describe_all(functions: Iterable[TaskFunction[Any, Any]]) -> list[AnnouncedFunction]:
    """Describe functions that a worker can import by their paths; others come as pickles."""
    found = []
    for function in functions:
        if function.is_importable:
            try:
                found.append(describe(function))
            except Exception as error:  # noqa: BLE001 - annotations run whatever their module says
                problem = f"{type(error).__name__}: {error}"
                log.warning("%s is not announced: %s", function.path, problem)
    return found


def describe(function: TaskFunction[Any, Any]) -> AnnouncedFunction:
    """Describe a function to those who have not got it."""
    spec = msgspec.structs.asdict(request_options(function))
    known = {name: spec[name] for name in FunctionOptions.__struct_fields__ if name in spec}
    doc = inspect.getdoc(function.function)
    return AnnouncedFunction(
        path=function.path,
        options=FunctionOptions(**known),
        parameters=[
            _describe_parameter(parameter, function.parameters.kinds[name])
            for name, parameter in function.parameters.signature.parameters.items()
            if name != CONTEXT_PARAMETER
        ],
        doc=doc.partition("\n")[0][:DOC_LENGTH_MAX] if doc else None,
    )


def _describe_parameter(parameter: inspect.Parameter, kind: Kind) -> FunctionParameter:
    is_rest = parameter.kind in _REST
    return FunctionParameter(
        name=parameter.name,
        required=parameter.default is parameter.empty and not is_rest,
        is_rest=is_rest,
        positional_only=parameter.kind is parameter.POSITIONAL_ONLY,
        annotation=kind.shown,
        default=_find_default(parameter),
        schema=_find_schema(kind),
    )


def _find_default(parameter: inspect.Parameter) -> str | None:
    """Write the default as JSON, if there is one and that is possible and not too long."""
    if parameter.default is parameter.empty:
        return None
    try:
        text = msgspec.json.encode(parameter.default).decode()
    except (TypeError, ValueError, RecursionError):  # what only Python can hold
        return None
    return text if len(text) <= DEFAULT_LENGTH_MAX else None


def _find_schema(kind: Kind) -> dict[str, Any] | None:
    """Make a JSON schema of an annotation, if that is possible and not too long."""
    if kind.annotation is None:
        return None
    try:
        schema = msgspec.json.schema(kind.annotation)
        return schema if len(msgspec.json.encode(schema)) <= SCHEMA_BYTES_MAX else None
    except (TypeError, RuntimeError):  # a class that only Python can read, such as Path
        return None
