"""Submissions to be completed or refused, for the tests of the rules about them."""

import reprlib
from typing import Any

import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import JobSpec, Limits, Submission
from holdfast.rules.submitting.submission import complete_submission, parse_spec

HALF_SURROGATE = "\ud800"
FUNCTION = {"function": "app.jobs:work"}
YEAR = 366 * 86_400.0
TEXTS = ["name", "type", "owner", "queue", "idempotency_key", "correlation_id", "trace_id"]


def completed(
    inputs: tuple[str, ...] | None = None, limits: Limits | None = None, /, **fields: Any
) -> JobSpec:
    spec = parse_spec({"entrypoint": FUNCTION} | fields)
    return complete_submission(Submission(spec, inputs), limits or Limits()).spec


def refused(inputs: tuple[str, ...] | None = None, /, **fields: Any) -> Invalid:
    with pytest.raises(Invalid) as caught:
        completed(inputs, **fields)
    assert str(caught.value) == f"{caught.value.field}: {caught.value.problem}"
    return caught.value


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def repr_short(value: object) -> str:
    return ascii(reprlib.repr(value))
