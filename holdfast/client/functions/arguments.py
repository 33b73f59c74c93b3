"""Arguments on their way into JSON: what would not come out of it as it went in is refused."""

import re
from typing import Any

import msgspec

from holdfast.client.argument_jobs import find_jobs
from holdfast.client.functions.parameters import Parameter
from holdfast.client.job import NOT_A_VALUE
from holdfast.errors import Invalid
from holdfast.wire.raw import encode_json

_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_OTHERWISE = "pass what JSON can say, or use @task(pickled=True)"


def write_argument(
    parameter: Parameter, value: Any, field: str, *, awaits_results: bool = False
) -> msgspec.Raw:
    """Write an argument as JSON, if its parameter will be given what is meant.

    One in which results of other jobs are missing is compared with its annotation by the worker.
    """
    text = encode_input(value, field)
    kind = parameter.kind
    if awaits_results and kind.annotation is not None:
        return text
    subject = "" if field == parameter.name else f"as {parameter.name!r}, "
    try:
        change = kind.find_change(value, text)
    except msgspec.ValidationError as error:
        problem = f"{subject}does not fit its annotation, {kind.shown}: {error}"
        raise Invalid(field, problem) from error
    except RecursionError as error:
        raise Invalid(field, f"{subject}is nested too deep; flatten it") from error
    if change is None:
        return text
    if kind.shown is None:
        remedy = "annotate the parameter with its type"
    elif kind.annotation is None:
        remedy = f"JSON cannot be converted to its annotation, {kind.shown}: use another one"
    else:
        remedy = f"say so in its annotation, {kind.shown}"
    raise Invalid(field, f"{subject}{change}; {remedy}, {_OTHERWISE}")


def encode_input(value: Any, field: str) -> msgspec.Raw:
    """Write an input as JSON; raises if it cannot be."""
    try:
        text = encode_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        if find_jobs(value):
            raise Invalid(field, f"holds a job; {NOT_A_VALUE}") from error
        raise Invalid(
            field, f"cannot be written as JSON ({error}); use @task(pickled=True) for objects"
        ) from error
    if b"\\u0000" in text and _ESCAPED_NUL.search(text):
        raise Invalid(field, "contains a NUL character, which cannot be stored; remove it")
    return msgspec.Raw(text)
