"""Jobs among the arguments of a call: found, taken out, and replaced by their results.

A path leads to a position as in `ResultPosition`: ["args", 0], ["kwargs", "table"], ["args", 0, 2].
"""

import copy
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.client.job import Job

DEPTH_MAX = 100


class FoundJob(NamedTuple):
    """Where a job stands; the steps are those of the value itself, not of its JSON."""

    path: tuple[Hashable, ...]
    job: Job[Any]


def find_jobs(value: Any) -> list[FoundJob]:
    """Find the jobs in a value and in its lists, tuples and dicts, however deep."""
    found: list[FoundJob] = []
    _walk(value, (), found, without=set())
    return found


def _walk(
    value: Any, path: tuple[Hashable, ...], found: list[FoundJob], *, without: set[int]
) -> None:
    """Look into a value; `without` are containers that hold none, or are being looked into."""
    if isinstance(value, Job):
        found.append(FoundJob(path, value))
        return
    if not isinstance(value, list | tuple | dict) or id(value) in without:
        return
    if len(path) >= DEPTH_MAX:
        return
    without.add(id(value))
    count = len(found)
    for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
        # Most values are neither, and need no path.
        if isinstance(inner, Job | list | tuple | dict):
            _walk(inner, (*path, step), found, without=without)
    if len(found) > count:
        without.discard(id(value))


def replace_all(value: Any, replacements: Iterable[tuple[Sequence[Any], Any]]) -> Any:
    """Put other values where paths lead; what holds them is copied, never changed.

    Raises LookupError or TypeError for a path that leads nowhere.
    """
    deeper: dict[Any, list[tuple[Sequence[Any], Any]]] = defaultdict(list)
    for path, new in replacements:
        if not path:
            return new
        deeper[path[0]].append((path[1:], new))
    return _change(value, {step: replace_all(value[step], inner) for step, inner in deeper.items()})


def _change(value: Any, changes: dict[Any, Any]) -> Any:
    if isinstance(value, tuple):
        items = [changes.get(step, item) for step, item in enumerate(value)]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    changed = copy.copy(value)
    for step, new in changes.items():
        changed[step] = new
    return changed
