"""How a function is called: which values its parameters take, and what it returns.

Read once for each function, and for each shape of call: how many arguments, under which names.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple, Union, get_type_hints

import msgspec

from holdfast.client.functions.kinds import Kind

SHAPES_MAX = 1000
# What an annotation, which is an expression of the user's, raises where names are missing.
_UNREADABLE = (NameError, AttributeError, TypeError, SyntaxError)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Parameter(NamedTuple):
    """One parameter, by the name that an error calls it."""

    name: str
    kind: Kind


class Shape(NamedTuple):
    """The parameters that calls of one shape fill; `is_plain` if JSON values are what they take."""

    args: list[Parameter]
    kwargs: dict[str, Parameter]
    is_plain: bool


class DoesNotFit(Exception):
    """A value is not what the annotation of its parameter says; the text names the parameter."""


class Parameters:
    """The parameters and the result of a function, as its annotations describe them."""

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature) -> None:
        self.function = function
        self.signature = signature
        self._shapes: dict[tuple[Any, ...], Shape] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameters, (self.function, self.signature)

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """The annotations; read late, when all names of a module are there."""
        return _read_hints(self.function)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each parameter by name."""
        found = {}
        for name, parameter in self.signature.parameters.items():
            annotation = self.hints.get(name, Any)
            if parameter.default is None and annotation is not Any:
                annotation = Union[annotation, None]  # noqa: UP007 - not all have |
            found[name] = Kind(annotation)
        return found

    @cached_property
    def returns(self) -> Kind:
        """What the function returns."""
        return Kind(self.hints.get("return", Any))

    def shape(self, num_args: int, names: Sequence[str]) -> Shape:
        """Say which parameters a call fills. Raises TypeError if it cannot be called so."""
        key = (num_args, *names)
        found = self._shapes.get(key)
        if found is None:
            self.signature.bind(*range(num_args), **dict.fromkeys(names))
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            found = self._shapes[key] = self._find_shape(num_args, names)
        return found

    def read(
        self, args: list[Any], kwargs: dict[str, Any], *, since: int = 0
    ) -> tuple[list[Any], dict[str, Any]]:
        """Make of JSON values what the function expects; those before `since` stay as they are.

        Raises TypeError if it cannot be called so, and DoesNotFit.
        """
        shape = self._shapes.get((len(args), *kwargs)) or self.shape(len(args), tuple(kwargs))
        if shape.is_plain:
            return args, kwargs
        read = args[:since]
        for value, parameter in zip(args[since:], shape.args[since:], strict=True):
            read.append(_read(parameter, value))
        return read, {name: _read(shape.kwargs[name], value) for name, value in kwargs.items()}

    def _find_shape(self, num_args: int, names: Sequence[str]) -> Shape:
        parameters = self.signature.parameters.values()
        positional = [p.name for p in parameters if p.kind in _POSITIONAL]
        more = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        more_named = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        args = [
            Parameter(positional[index], self.kinds[positional[index]])
            if index < len(positional)
            else Parameter(f"{more}[{index - len(positional)}]", self.kinds[more])
            for index in range(num_args)
        ]
        kwargs = {
            name: Parameter(name, self.kinds.get(name) or self.kinds[more_named]) for name in names
        }
        filled = [*args, *kwargs.values()]
        return Shape(args, kwargs, all(each.kind.annotation is None for each in filled))


def _read(parameter: Parameter, value: Any) -> Any:
    try:
        return parameter.kind.read(value)
    except msgspec.ValidationError as error:
        shown = parameter.kind.shown
        problem = f"{parameter.name}: does not fit its annotation, {shown}: {error}"
        raise DoesNotFit(problem) from error


def _read_hints(function: Any) -> Mapping[str, Any]:
    """Read annotations; one that names what is not there (for type checkers only) is left out."""
    try:
        return get_type_hints(function, include_extras=True)
    except _UNREADABLE:
        found: dict[str, Any] = {}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    for name, annotation in getattr(function, "__annotations__", {}).items():
        one = SimpleNamespace(__annotations__={name: annotation})
        try:
            found |= get_type_hints(one, names, include_extras=True)
        except _UNREADABLE:
            continue
    return found
