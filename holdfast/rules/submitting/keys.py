"""Keys that tasks have from their inputs: a path to nothing would be a limit that does not hold.

The function `holdfast.check_key` of the database does the same for submissions by SQL.
"""

import re
from typing import Any

import msgspec

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint, JobSpec, KeyOfInput, Submission

_FIELD = "concurrency_key.input"
# What Postgres takes for the number of an element; a negative one counts from the end.
_INDEX = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")
_MISSING: Any = object()


def check_key(submission: Submission) -> None:
    """Refuse a path that does not lead to a value, or a null, in each input or in the arguments.

    A job that was taken in before is not asked again: it keeps the key that it had.
    """
    key, entrypoint = submission.spec.concurrency_key, submission.spec.entrypoint
    if not isinstance(key, KeyOfInput) or key.input is None:
        return
    steps = _steps(key.input)
    if submission.inputs is not None:
        for index, text in enumerate(submission.inputs):
            value = msgspec.json.decode(text)
            found = _find_fault(value, steps)
            if found is not None:
                _refuse(key.input, found, f"inputs[{index}]", remedy=_of_inputs(value))
        return
    _refuse_results(key.input, entrypoint)
    if entrypoint.args:
        place, remedy = "entrypoint.args[0]", "name a field that it has, give all arguments by name"
        found = _find_fault(entrypoint.args[0], steps)
    elif entrypoint.kwargs:
        place, remedy = "entrypoint.kwargs", "name an argument that is given"
        found = _find_fault(entrypoint.kwargs, steps)
    else:
        problem = "the job has neither inputs nor arguments; give the key as a text"
        raise Invalid(_FIELD, f"{key.input!r} leads to nothing: {problem}")
    if found is not None:
        _refuse(key.input, found, place, remedy=f"{remedy}, or give the key as a text")


def check_corrected(spec: JobSpec, text: str, field: str) -> None:
    """Refuse an input that is given to a job again, corrected, and lacks the key."""
    key = spec.concurrency_key
    if not isinstance(key, KeyOfInput) or key.input is None:
        return
    found = _find_fault(msgspec.json.decode(text), _steps(key.input))
    if found is not None:
        where = f"at {key.input!r}, where the job's key is" if key.input else "as the job's key"
        remedy = "give it there, as null for no key" if found == "nothing" else "give one value"
        raise Invalid(field, f"has {found} {where}; {remedy}")


def _refuse(path: str, found: str, place: str, *, remedy: str) -> None:
    if found != "nothing":
        remedy = "name one value in it"
    raise Invalid(_FIELD, f"{path!r} leads to {found} in {place}; {remedy}")


def _of_inputs(value: Any) -> str:
    if isinstance(value, dict | list):
        return "name a field that each has, or give it there as null for no key"
    return "name a field that each has, or none at all ('') to count by the input itself"


def _refuse_results(path: str, entrypoint: Entrypoint) -> None:
    way = [*(("args", "0") if entrypoint.args else ("kwargs",)), *_steps(path)]
    for result in entrypoint.results:
        taken = [str(step) for step in result.path]
        length = min(len(way), len(taken))
        if way[:length] == taken[:length]:
            problem = f"leads to the result of job {result.job}, which is not known yet"
            raise Invalid(_FIELD, f"{path!r} {problem}; give the key as a text")


def _steps(path: str) -> list[str]:
    return path.split(".") if path else []


def _find_fault(value: Any, steps: list[str]) -> str | None:
    """Say what is there instead of a value. A null on the way is one: there is no key."""
    found = value
    for number, step in enumerate(steps):
        if isinstance(found, dict):
            found = found.get(step, _MISSING)
        elif isinstance(found, list):
            found = _element(found, step)
        elif found is None and number:
            return None
        else:
            return "nothing"
    if found is _MISSING:
        return "nothing"
    if isinstance(found, dict):
        return "an object"
    return "a list" if isinstance(found, list) else None


def _element(values: list[Any], step: str) -> Any:
    index = int(step) if _INDEX.fullmatch(step) else len(values)
    return values[index] if -len(values) <= index < len(values) else _MISSING
