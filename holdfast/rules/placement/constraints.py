"""Conditions on the attributes of workers: how they are read, checked and answered.

Numbers compare as numbers, also with a text that reads as one (7, 7.0, "7"); booleans equal the
texts true and false; two texts compare as texts. What cannot be compared is not fulfilled.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import Invalid
from holdfast.model.workers.resources import OPERATORS, AttributeValue, Constraint, Operator

TEXT_LENGTH_MAX = 256
VALUES_MAX = 256

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
# 007 is the name of something, not seven.
_TYPED = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_ATTRIBUTE = r"\s*(?P<attribute>[A-Za-z0-9_][A-Za-z0-9_./-]*)"
_EXISTS = re.compile(rf"{_ATTRIBUTE}\s+exists\s*")
_LIST = re.compile(rf"{_ATTRIBUTE}\s+(?P<op>in|not\s+in)\s+(?P<values>\S.*)")
_SIGN = re.compile(rf"{_ATTRIBUTE}\s*(?P<op>==|=|!=|<=|>=|<|>)\s*(?P<value>[^\s=<>!].*)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(constraint: Constraint, attributes: Mapping[str, AttributeValue]) -> bool:
    """Tell whether attributes fulfil a constraint; one that is missing, only `!=` and `not in`."""
    op, wanted = constraint.op, constraint.value
    if constraint.attribute not in attributes:
        return op in ("!=", "not in")
    if op == "exists":
        return True
    found = attributes[constraint.attribute]
    values = wanted if isinstance(wanted, list) else [wanted]
    match op:
        case "=" | "in":
            return any(_equal(found, value) for value in values)
        case "!=" | "not in":
            return not any(_equal(found, value) for value in values)
        case _:
            pair = _as_numbers(found, wanted)
            if pair is None and isinstance(found, str) and isinstance(wanted, str):
                pair = (found, wanted)
            return pair is not None and _COMPARISONS[op](*pair)


def parse_constraint(text: str, field: str = "constraint") -> Constraint:
    """Read a constraint as people write it: region=eu, gpu_gb>=40, rack in r1,r2, nvme exists."""
    if found := _EXISTS.fullmatch(text):
        constraint = Constraint(found["attribute"], "exists")
    elif found := _LIST.fullmatch(text):
        op: Operator = "in" if found["op"] == "in" else "not in"
        listed = found["values"].strip()
        if listed.startswith("(") and listed.endswith(")"):
            listed = listed[1:-1]
        words = [word.strip() for word in listed.split(",")]
        constraint = Constraint(found["attribute"], op, [parse_value(w) for w in words if w])
    elif found := _SIGN.fullmatch(text):
        sign = "=" if found["op"] == "==" else found["op"]
        [op] = [known for known in OPERATORS if known == sign]
        constraint = Constraint(found["attribute"], op, parse_value(found["value"].strip()))
    else:
        raise Invalid(
            field,
            f"{text!r} is not a constraint; write one such as region=eu, gpu_gb>=40, "
            "rack in r1,r2, rack not in r1,r2 or nvme exists",
        )
    check_constraint(constraint, field)
    return constraint


def parse_value(text: str) -> AttributeValue:
    """Give a text the type it shows: true and false, numbers, otherwise the text itself."""
    if text in ("true", "false"):
        return text == "true"
    return _number(text) if _TYPED.fullmatch(text) else text


def check_constraint(constraint: Constraint, field: str) -> None:
    """Refuse a constraint that makes no sense; raises Invalid."""
    op, value = constraint.op, constraint.value
    if not 0 < len(constraint.attribute) <= TEXT_LENGTH_MAX:
        raise Invalid(f"{field}.attribute", f"must have 1 to {TEXT_LENGTH_MAX} characters")
    if op not in OPERATORS:
        raise Invalid(f"{field}.op", f"{op!r} is not known; use one of {', '.join(OPERATORS)}")
    if op == "exists":
        if value is not None:
            raise Invalid(f"{field}.value", "exists takes no value; leave it out, or use =")
        return
    if op in ("in", "not in"):
        if not isinstance(value, list) or not 0 < len(value) <= VALUES_MAX:
            raise Invalid(f"{field}.value", f"{op} takes a list of 1 to {VALUES_MAX} values")
        for each in value:
            _check_value(each, field)
        return
    if value is None or isinstance(value, list):
        raise Invalid(f"{field}.value", f"{op} takes one value; for a list use in or not in")
    if op in _COMPARISONS and isinstance(value, bool):
        raise Invalid(f"{field}.value", f"{op} takes a number or a text; for true and false use =")
    _check_value(value, field)


def _check_value(value: AttributeValue, field: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{field}.value", f"{value} is not a number that can be compared")
    if isinstance(value, str) and not 0 < len(value) <= TEXT_LENGTH_MAX:
        raise Invalid(f"{field}.value", f"a text must have 1 to {TEXT_LENGTH_MAX} characters")


def _equal(found: AttributeValue, wanted: AttributeValue | None) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return _as_boolean(found) is _as_boolean(wanted) is not None
    pair = _as_numbers(found, wanted)
    return found == wanted if pair is None else pair[0] == pair[1]


def _as_boolean(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _as_numbers(found: object, wanted: object) -> tuple[Any, Any] | None:
    """Read both as numbers if at least one of them is a number and the other can be one."""
    if isinstance(found, str) and isinstance(wanted, str):
        return None
    left, right = _as_number(found), _as_number(wanted)
    return None if left is None or right is None else (left, right)


def _as_number(value: object) -> int | float | None:
    if isinstance(value, str):
        readable = len(value) <= TEXT_LENGTH_MAX and _NUMBER.fullmatch(value)
        return _number(value) if readable else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(text: str) -> int | float:
    return int(text) if _INTEGER.fullmatch(text) else float(text)
