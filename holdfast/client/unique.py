"""What makes a call unique, where the decorator names parameters: found among the arguments."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.client.functions.arguments import write_argument
from holdfast.client.functions.parameters import Parameter, Shape
from holdfast.client.task import TaskFunction
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.submitting.unique import Unique

_HEAD = re.compile(r"[^.\[]*")
_MORE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def find_unique(
    function: TaskFunction[Any, Any],
    unique: Unique | None,
    entrypoint: Entrypoint,
    *,
    shape: Shape,
    num_args: int,
    has_inputs: bool,
) -> Unique | None:
    """Say where the parameters are that make a call unique; the server knows no names of them.

    One that has its default is nowhere: then the values themselves are told.
    """
    if unique is None or not unique.arguments:
        return unique
    known = {
        name
        for name, parameter in function.parameters.signature.parameters.items()
        if parameter.kind not in _MORE
    }
    named = [path for path in unique.arguments if _head(path) in known]
    if not named:
        return unique
    if entrypoint.function is None:
        raise Invalid(
            "unique.arguments", f"names {named[0]}, which is pickled; give unique.values instead"
        )
    positional = [each.name for each in shape.args[len(shape.args) - num_args :]]
    inputs = [each.name for each in shape.args[:1]] if has_inputs else []
    found: list[tuple[str, Any]] = []
    for path in unique.arguments:
        head = _head(path)
        if head in inputs:
            problem = f"names {head}, of which each task has its own; name inputs, or leave it out"
            raise Invalid("unique.arguments", problem)
        if head not in known:
            found.append((path, msgspec.UNSET))
        elif head in positional:
            found.append((f"args[{positional.index(head)}]{path[len(head) :]}", msgspec.UNSET))
        elif head in entrypoint.kwargs:
            found.append((f"kwargs.{path}", msgspec.UNSET))
        else:
            found.append((path, _default(function, path)))
    paths = [path for path, value in found if value is msgspec.UNSET]
    _refuse_results(paths, entrypoint)
    if len(paths) == len(found):
        return msgspec.structs.replace(unique, arguments=paths)
    given = {"args": entrypoint.args, "kwargs": entrypoint.kwargs}
    values = [_follow(given, path) if value is msgspec.UNSET else value for path, value in found]
    return msgspec.structs.replace(unique, arguments=None, values=values)


def _head(path: str) -> str:
    found = _HEAD.match(path)
    assert found is not None, "the empty text is one"
    return found[0]


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _default(function: TaskFunction[Any, Any], path: str) -> Any:
    """Give what a parameter is that was not given."""
    name, parameters = _head(path), function.parameters
    parameter = Parameter(name, parameters.kinds[name])
    default = write_argument(parameter, parameters.signature.parameters[name].default, name)
    return _follow({name: default}, path)


def _follow(given: Any, path: str) -> Any:
    found = given
    for step in _steps(path):
        if isinstance(found, msgspec.Raw):
            found = msgspec.json.decode(found)
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif (
            isinstance(found, Sequence)
            and not isinstance(found, str)
            and step.isdecimal()
            and int(step) < len(found)
        ):
            found = found[int(step)]
        else:
            raise Invalid("unique.arguments", f"names {path}, which the call does not have")
    return msgspec.json.decode(found) if isinstance(found, msgspec.Raw) else found


def _refuse_results(paths: Sequence[str], entrypoint: Entrypoint) -> None:
    for path in paths:
        for result in entrypoint.results:
            steps, wanted = [str(step) for step in result.path], _steps(path)
            length = min(len(steps), len(wanted))
            if steps[:length] == wanted[:length]:
                raise Invalid(
                    "unique.arguments",
                    f"names {path}, which is the result of job {result.job} and not known yet",
                )
