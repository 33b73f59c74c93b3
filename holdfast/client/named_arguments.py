"""The arguments of a call by the names of its parameters, for options that name some of them."""

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from holdfast.client.functions.arguments import write_argument
from holdfast.client.functions.parameters import Parameter, Shape
from holdfast.client.task import CONTEXT_PARAMETER, TaskFunction
from holdfast.model.submitting.spec import Entrypoint

_MORE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class NamedArguments:
    """What a call gives to each parameter: where it stands in the entrypoint, or the default.

    Of the parameter `of_inputs`, if there is one, each task has its own.
    """

    def __init__(
        self,
        function: TaskFunction[Any, Any],
        entrypoint: Entrypoint,
        *,
        shape: Shape,
        num_args: int,
        has_inputs: bool,
    ) -> None:
        self.entrypoint = entrypoint
        self.of_inputs = shape.args[0].name if has_inputs else None
        self._parameters = function.parameters
        self._positional = shape.args[len(shape.args) - num_args :]

    @cached_property
    def names(self) -> list[str]:
        """The names of the parameters, but for what the worker gives."""
        return [
            name
            for name, parameter in self._parameters.signature.parameters.items()
            if parameter.kind not in _MORE and name != CONTEXT_PARAMETER
        ]

    def has(self, name: str) -> bool:
        """Tell whether a parameter is called so, or one of the further arguments."""
        return name in self.names or self.place(name) is not None

    def place(self, name: str) -> tuple[str, str] | None:
        """Give the steps to a parameter in the entrypoint; None where it is left to its default."""
        for index, parameter in enumerate(self._positional):
            if parameter.name == name:
                return "args", str(index)
        return ("kwargs", name) if name in self.entrypoint.kwargs else None

    def default(self, name: str) -> Any:
        """Give what a parameter is that was not given."""
        default = self._parameters.signature.parameters[name].default
        return write_argument(Parameter(name, self._parameters.kinds[name]), default, name)

    def follow(self, steps: Sequence[str]) -> Any:
        """Give what stands at a place in the entrypoint, or UNSET."""
        return follow({"args": self.entrypoint.args, "kwargs": self.entrypoint.kwargs}, steps)

    def awaited_job(self, steps: Sequence[str]) -> str | None:
        """Name the job whose result stands there, and is not known yet."""
        for result in self.entrypoint.results:
            taken = [str(step) for step in result.path]
            length = min(len(taken), len(steps))
            if taken[:length] == list(steps[:length]):
                return result.job
        return None


def follow(given: Any, steps: Sequence[str], *, ends_at_null: bool = False) -> Any:
    """Follow a path into values, some of them JSON texts; UNSET if it leads to nothing.

    A null that has been come to on the way is the end of it, if so asked.
    """
    found = given
    for number, step in enumerate(steps):
        found = _decode(found)
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif (
            isinstance(found, Sequence)
            and not isinstance(found, str)
            and step.isdecimal()
            and int(step) < len(found)
        ):
            found = found[int(step)]
        elif found is None and number and ends_at_null:
            return None
        else:
            return msgspec.UNSET
    return _decode(found)


def _decode(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
