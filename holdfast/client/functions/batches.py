"""Functions that are called once for many tasks: each task brings one item of their list."""

import collections.abc
import inspect
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_origin

from holdfast.client.functions.kinds import Kind
from holdfast.client.functions.parameters import Parameters
from holdfast.errors import Invalid

BATCH_MAX = 1000
WITHIN_SECONDS_MAX = 60.0
WITHIN_SECONDS = 0.1
_LISTS = (list, collections.abc.Sequence)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class BatchSize(NamedTuple):
    """How many tasks a call takes at most, and for how long it waits for more, in seconds."""

    tasks_max: int
    within: float = WITHIN_SECONDS


def read_batch_size(tasks_max: int | None, within: float | None) -> BatchSize | None:
    """Read how a function is batched, if it is. Raises Invalid."""
    if tasks_max is None:
        if within is not None:
            raise Invalid("within", "goes with batch; say how many tasks a call takes")
        return None
    if not 1 <= tasks_max <= BATCH_MAX:
        raise Invalid("batch", f"is {tasks_max}; use 1 to {BATCH_MAX} tasks")
    if within is None:
        return BatchSize(tasks_max)
    if not 0 <= within <= WITHIN_SECONDS_MAX:
        raise Invalid("within", f"is {within:g}; use 0 to {WITHIN_SECONDS_MAX:g} seconds")
    return BatchSize(tasks_max, within)


def check_batched(path: str, signature: inspect.Signature) -> None:
    """Refuse to batch a function that does not take one list and nothing else."""
    parameters = list(signature.parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        raise Invalid(
            "batch", f"{path} does not take one list alone; a batch has no other arguments, nor ctx"
        )


class BatchParameters(Parameters):
    """The parameter and the result of a batched function, as one of its tasks sees them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchParameters, (self.function, self.signature)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of one item of the list."""
        [name] = self.signature.parameters
        return {name: _item_of(self.hints.get(name, Any))}

    @cached_property
    def returns(self) -> Kind:
        """What the function returns for one item."""
        return _item_of(self.hints.get("return", Any))


def _item_of(annotation: Any) -> Kind:
    if get_origin(annotation) in _LISTS and len(get_args(annotation)) == 1:
        return Kind(get_args(annotation)[0])
    return Kind()
