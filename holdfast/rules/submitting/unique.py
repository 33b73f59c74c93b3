"""Check what makes a job unique, and fill in in which states it is.

The function `holdfast.check_unique` of the database does the same for submissions by SQL. What two
jobs have in common is made of this by the database alone: `holdfast.unique_digest`.
"""

import json
import re
from typing import Any, get_args

import msgspec

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import YEAR_SECONDS, Limits, Submission
from holdfast.model.submitting.unique import Unique, UniqueState

PERIOD_SECONDS_MIN = 1.0
PATHS_MAX = 100
_STEP = r"[^\x01- +.\[\]\x7f-][^.\[\]]*"
_PATH = re.compile(rf"(?:args|kwargs|inputs)(?:\.{_STEP}|\[[0-9]+\])*")
_STATES: tuple[str, ...] = get_args(UniqueState)
_LIVE = ("pending", "running")
_MISSING = object()


def check_unique(submission: Submission, limits: Limits) -> None:
    """Refuse what could not make a job unique, or would make one of all."""
    unique = submission.spec.unique
    if unique is None:
        return
    if submission.num_tasks > limits.batch_tasks_max:
        raise Invalid(
            "unique",
            f"goes with jobs of at most {limits.batch_tasks_max} tasks; split the job, or leave "
            "it out",
        )
    if unique.arguments is not None and unique.values is not None:
        raise Invalid("unique.values", "goes without arguments; give one of the two")
    _check_arguments(submission, unique.arguments)
    _check_period(unique.period)
    _check_states(unique)
    if unique.keep_start and unique.on_conflict != "replace":
        raise Invalid("unique.keep_start", "goes with on_conflict replace only")
    if unique.keep_start and submission.spec.start_rate is not None:
        raise Invalid("unique.keep_start", "goes without start_rate; leave one of the two out")


def complete_unique(unique: Unique | None) -> Unique | None:
    """Fill in the states: until it has started if others replace it, else until it has ended.

    With a period also when it has succeeded: once in a period, and not one after the other.
    """
    if unique is None or unique.states is not None:
        return unique
    states: list[UniqueState] = ["pending"]
    if unique.on_conflict != "replace":
        states.append("running")
        if unique.period is not None:
            states.append("succeeded")
    return msgspec.structs.replace(unique, states=states)


def _check_arguments(submission: Submission, paths: list[str] | None) -> None:
    if paths is None:
        return
    if len(paths) > PATHS_MAX:
        raise Invalid("unique.arguments", f"names more than {PATHS_MAX} arguments; name fewer")
    for index, path in enumerate(paths):
        field = f"unique.arguments[{index}]"
        if not _PATH.fullmatch(path):
            raise Invalid(
                field,
                f"{path!r} is no way to an argument; write it like args[0], kwargs.user.id or "
                "inputs[0]",
            )
        if _find(submission, path) is _MISSING:
            raise Invalid(
                field, f"the job has no {path}; name what it is called with, or give values"
            )


def _find(submission: Submission, path: str) -> Any:
    """Follow a path as Postgres follows one in JSON."""
    root, *steps = re.findall(r"[^.\[\]]+", path)
    found = _root(submission, root, steps)
    for step in steps if root != "inputs" else steps[1:]:
        if isinstance(found, dict):
            found = found.get(step, _MISSING)
        elif isinstance(found, list) and re.fullmatch(r"[0-9]{1,9}", step):
            found = found[int(step)] if int(step) < len(found) else _MISSING
        else:
            return _MISSING
    return found


def _root(submission: Submission, root: str, steps: list[str]) -> Any:
    """Give the arguments, or of the inputs, which may be many, the one that is meant."""
    entrypoint = submission.spec.entrypoint
    if root != "inputs":
        # What is empty is not stored.
        found: Any = getattr(entrypoint, root) or _MISSING
        return found
    inputs = submission.inputs
    if inputs is None:
        return _MISSING
    if not steps:
        return inputs
    if not re.fullmatch(r"[0-9]{1,9}", steps[0]) or int(steps[0]) >= len(inputs):
        return _MISSING
    return json.loads(inputs[int(steps[0])])


def _check_period(period: float | None) -> None:
    # Not a number compares false with everything.
    if period is not None and not PERIOD_SECONDS_MIN <= period <= YEAR_SECONDS:
        raise Invalid(
            "unique.period", f"is out of range; use {PERIOD_SECONDS_MIN} to {YEAR_SECONDS}"
        )


def _check_states(unique: Unique) -> None:
    states = unique.states
    if states is None:
        return
    if "pending" not in states:
        raise Invalid("unique.states", "lacks pending, in which every job begins; add it")
    if "running" not in states and set(states) - {"pending"}:
        raise Invalid("unique.states", "lacks running, which comes before an end; add it")
    if unique.on_conflict == "replace" and set(states) != {"pending"}:
        raise Invalid(
            "unique.states",
            "goes beyond pending; only what waits can be replaced, so leave it out or give "
            '["pending"]',
        )
