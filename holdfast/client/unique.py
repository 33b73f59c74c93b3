"""What makes a call unique, where the decorator names parameters: found among the arguments."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.client.named_arguments import NamedArguments, follow
from holdfast.errors import Invalid
from holdfast.model.submitting.unique import Unique

_HEAD = re.compile(r"[^.\[]*")


def find_unique(unique: Unique | None, call: NamedArguments) -> Unique | None:
    """Say where the parameters are that make a call unique; the server knows no names of them.

    One that has its default is nowhere: then the values themselves are told.
    """
    if unique is None or not unique.arguments:
        return unique
    named = [path for path in unique.arguments if _head(path) in call.names]
    if not named:
        return unique
    if call.entrypoint.function is None:
        raise Invalid(
            "unique.arguments", f"names {named[0]}, which is pickled; give unique.values instead"
        )
    found: list[tuple[str, Any]] = []
    for path in unique.arguments:
        head = _head(path)
        place = call.place(head)
        if head == call.of_inputs:
            problem = f"names {head}, of which each task has its own; name inputs, or leave it out"
            raise Invalid("unique.arguments", problem)
        if head not in call.names:
            found.append((path, msgspec.UNSET))
        elif place is None:
            default = follow({head: call.default(head)}, _steps(path))
            found.append((path, _take(default, path)))
        else:
            start = f"args[{place[1]}]" if place[0] == "args" else f"kwargs.{head}"
            found.append((f"{start}{path[len(head) :]}", msgspec.UNSET))
    paths = [path for path, value in found if value is msgspec.UNSET]
    _refuse_results(paths, call)
    if len(paths) == len(found):
        return msgspec.structs.replace(unique, arguments=paths)
    values = [
        _take(call.follow(_steps(path)), path) if value is msgspec.UNSET else value
        for path, value in found
    ]
    return msgspec.structs.replace(unique, arguments=None, values=values)


def _head(path: str) -> str:
    found = _HEAD.match(path)
    assert found is not None, "the empty text is one"
    return found[0]


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _take(found: Any, path: str) -> Any:
    if found is msgspec.UNSET:
        raise Invalid("unique.arguments", f"names {path}, which the call does not have")
    return found


def _refuse_results(paths: Sequence[str], call: NamedArguments) -> None:
    for path in paths:
        job = call.awaited_job(_steps(path))
        if job is not None:
            raise Invalid(
                "unique.arguments",
                f"names {path}, which is the result of job {job} and not known yet",
            )
