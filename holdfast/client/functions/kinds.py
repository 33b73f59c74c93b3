"""What a parameter or a result may be, by its annotation, and how it comes out of JSON.

A kind is read once for each function. Without an annotation, or with one that JSON cannot be
converted to, a value is what JSON can say: what would arrive as something else is refused.
"""

import reprlib
from datetime import datetime, time
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from holdfast.wire.raw import is_pydantic

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 60
_SCALARS = (int, str, float, bool, NoneType)


class Change(NamedTuple):
    """A part of a value that would arrive as another one."""

    sent: Any
    arrives: Any

    def __str__(self) -> str:
        return f"{_repr.repr(self.sent)} would arrive as {_repr.repr(self.arrives)}"


class Kind:
    """One annotation, ready to be used; `annotation` is None where values stay as JSON has them."""

    __slots__ = ("_unchanged", "annotation", "shown")

    def __init__(self, annotation: Any = Any) -> None:
        self.shown = None if annotation in (Any, object) else _show(annotation)
        self.annotation = annotation if self.shown and _is_convertible(annotation) else None
        # The types whose values need not be looked at: most calls have no others.
        self._unchanged = _SCALARS if self.annotation is None else _list_scalars(annotation)

    def read(self, value: Any) -> Any:
        """Make of a JSON value what the annotation says; raises ValidationError of msgspec."""
        if self.annotation is None or type(value) in self._unchanged:
            return value
        return msgspec.convert(value, self.annotation, str_keys=True, dec_hook=_read_object)

    def find_change(self, value: Any, text: msgspec.Raw) -> Change | None:
        """Find what of a value would arrive changed, if it is sent as this text."""
        if type(value) in self._unchanged:
            return None
        return find_change(value, self.read(msgspec.json.decode(text)))


def find_change(sent: Any, arrives: Any) -> Change | None:
    """Find the first part of a value that has become another one."""
    if sent == arrives:
        return None
    if isinstance(sent, list | tuple) and type(sent) is type(arrives) and len(sent) == len(arrives):
        parts = list(zip(sent, arrives, strict=True))
    elif isinstance(sent, dict) and isinstance(arrives, dict) and sent.keys() == arrives.keys():
        parts = [(value, arrives[key]) for key, value in sent.items()]
    elif type(sent) is type(arrives) and _has_no_equality(sent):
        return None
    else:
        return Change(sent, arrives)
    return next((found for part in parts if (found := find_change(*part))), None)


def _has_no_equality(value: Any) -> bool:
    """Tell whether values that are the same need not be equal: times of an hour that comes twice,
    and objects of a class that does not compare them.
    """
    compares: Any = type(value).__eq__
    return isinstance(value, datetime | time) or compares is object.__eq__


def _read_object(kind: Any, value: Any) -> Any:
    if isinstance(value, kind):  # of a result that was pickled
        return value
    return kind.model_validate(value) if is_pydantic(kind) else kind(value)


def _list_scalars(annotation: Any) -> tuple[Any, ...]:
    """List the types of an annotation that says nothing but scalars."""
    is_union = get_origin(annotation) in (Union, UnionType)
    parts = get_args(annotation) if is_union else (annotation,)
    return parts if all(part in _SCALARS for part in parts) else ()


def _is_convertible(annotation: Any) -> bool:
    try:
        found = msgspec.inspect.type_info(annotation)
    except (TypeError, NameError, RecursionError):  # such as a union that JSON cannot tell apart
        return False
    return _is_known(found, seen=set())


def _is_known(found: Any, *, seen: set[int]) -> bool:
    """Tell whether everything that a type is made of can come out of JSON."""
    if isinstance(found, msgspec.inspect.CustomType):
        return issubclass(found.cls, PurePath) or is_pydantic(found.cls)
    if id(found) in seen:
        return True
    seen.add(id(found))
    if isinstance(found, tuple | list):
        return all(_is_known(part, seen=seen) for part in found)
    if not isinstance(found, msgspec.inspect.Type | msgspec.inspect.Field):
        return True
    return all(_is_known(getattr(found, name), seen=seen) for name in found.__struct_fields__)


def _show(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
