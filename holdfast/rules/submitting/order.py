"""Jobs that wait for jobs: what a submission may name, and the order in which a graph is stored."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.order import Condition, Dependency, ResultPosition
from holdfast.model.submitting.payloads import find_codec_name
from holdfast.model.submitting.spec import Entrypoint, JobSpec, Limits, Submission
from holdfast.model.work.ids import parse_job_id

_LOCAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NAMES_SHOWN_MAX = 10
PATH_LENGTH_MAX = 100


def dependencies_of(spec: JobSpec) -> list[Dependency]:
    """List what a job waits for, in one form."""
    return [Dependency(given) if isinstance(given, str) else given for given in spec.depends_on]


def check_order(submission: Submission, limits: Limits) -> None:
    """Refuse dependencies, and positions for results, that cannot be meant."""
    spec = submission.spec
    if len(spec.depends_on) > limits.dependencies_max:
        raise TooLarge("depends_on", len(spec.depends_on), limits.dependencies_max, unit="jobs")
    if submission.local_name is not None and not _LOCAL_NAME.fullmatch(submission.local_name):
        raise Invalid("local_name", "is not a name; use letters, digits and _.-, a letter first")
    seen: set[str] = set()
    for index, dependency in enumerate(dependencies_of(spec)):
        field = f"depends_on[{index}]"
        if not _LOCAL_NAME.fullmatch(dependency.job):
            parse_job_id(dependency.job, field)
        if dependency.job in seen:
            raise Invalid(field, f"names {dependency.job} again; name each job once")
        seen.add(dependency.job)
    waited_for = {d.job for d in dependencies_of(spec) if d.condition == "succeeded"}
    for index, result in enumerate(spec.entrypoint.results):
        _check_result(f"entrypoint.results[{index}]", result, spec, waited_for=waited_for)
    _check_positions([result.path for result in spec.entrypoint.results])


def _check_result(
    field: str, result: ResultPosition, spec: JobSpec, *, waited_for: set[str]
) -> None:
    if spec.entrypoint.function is None and spec.entrypoint.pickle is None:
        raise Invalid(field, "goes with a function only; a command has no arguments of that kind")
    if result.job not in waited_for:
        raise Invalid(field, f"needs job {result.job} to have succeeded; add it to depends_on")
    path = result.path
    if not 2 <= len(path) <= PATH_LENGTH_MAX or path[0] not in ("args", "kwargs"):
        raise Invalid(field, 'has no path to an argument; write it like ["args", 0]')
    if spec.entrypoint.pickle is not None:
        return  # only who unpickles it can look there
    inner: Any = {"args": spec.entrypoint.args, "kwargs": spec.entrypoint.kwargs}
    for step in path:
        if find_codec_name(inner) is not None:
            return  # only who decodes it can look there
        known = range(len(inner)) if isinstance(inner, list) else inner
        is_inside = isinstance(inner, list | dict) and not isinstance(step, bool)
        if not is_inside or step not in known:
            raise Invalid(field, f"leads nowhere: there is no {path!r} among the arguments")
        inner = inner[step]


def _check_positions(paths: Sequence[Sequence[str | int]]) -> None:
    """Refuse positions of which one is within another: the result there would be lost."""
    taken = {tuple(path): index for index, path in reversed(list(enumerate(paths)))}
    for index, path in enumerate(paths):
        for length in range(2, len(path) + 1):
            other = taken.get(tuple(path[:length]), index)
            if other != index:
                problem = (
                    f"is within entrypoint.results[{other}]; give each result its own position"
                )
                raise Invalid(f"entrypoint.results[{index}]", problem)


def sort_graph(submissions: Sequence[Submission]) -> list[int]:
    """Give the indexes of jobs in an order in which each comes after those it waits for.

    Raises Invalid for a name that two jobs have or that none has, and for a cycle.
    """
    indexes: dict[str, int] = {}
    for index, submission in enumerate(submissions):
        if submission.spec.chain is not None:
            problem = "goes with jobs that are submitted each on its own; use depends_on here"
            raise Invalid(f"specs[{index}].chain", problem)
        name = submission.local_name
        if name is not None and indexes.setdefault(name, index) != index:
            raise Invalid(f"specs[{index}].local_name", f"{name!r} is taken; choose another")
    before: dict[int, set[int]] = {index: set() for index in range(len(submissions))}
    for index, submission in enumerate(submissions):
        for number, dependency in enumerate(dependencies_of(submission.spec)):
            if not is_local(dependency.job):
                continue
            if dependency.job not in indexes:
                field = f"specs[{index}].depends_on[{number}]"
                known = ", ".join(sorted(indexes)[:_NAMES_SHOWN_MAX]) or "none"
                raise Invalid(field, f"no job here is called {dependency.job!r}; there are {known}")
            before[index].add(indexes[dependency.job])
    return _sort(before, submissions)


def _sort(before: dict[int, set[int]], submissions: Sequence[Submission]) -> list[int]:
    """Sort by what comes before, and otherwise as given; raises Invalid for a cycle."""
    after: dict[int, list[int]] = {index: [] for index in before}
    for index, earlier in before.items():
        for other in earlier:
            after[other].append(index)
    missing = {index: len(earlier) for index, earlier in before.items()}
    ordered = [index for index, count in missing.items() if not count]
    for index in ordered:  # grows while it is read
        for follower in after[index]:
            missing[follower] -= 1
            if not missing[follower]:
                ordered.append(follower)
    if len(ordered) < len(before):
        index = next(index for index, count in missing.items() if count)
        cycle = _find_cycle(index, before, missing)
        shown = [str(submissions[index].local_name) for index in cycle]
        if len(shown) > _NAMES_SHOWN_MAX:
            shown[_NAMES_SHOWN_MAX - 2 : -1] = ["..."]
        names = " -> ".join(shown)
        raise Invalid(f"specs[{cycle[0]}].depends_on", f"is part of a cycle: {names}; break it")
    return ordered


def _find_cycle(start: int, before: dict[int, set[int]], missing: dict[int, int]) -> list[int]:
    """Walk back among jobs that wait for each other until one comes up again."""
    walked: dict[int, int] = {}
    here = start
    while here not in walked:
        walked[here] = len(walked)
        here = next(index for index in before[here] if missing[index])
    return [*list(walked)[walked[here] :], here]


def is_local(job: str) -> bool:
    """Tell a local name from a job's id."""
    return not job.isdigit()


def refuse_local_names(spec: JobSpec) -> None:
    """Refuse names that mean something only in a graph that is submitted in one call."""
    for index, dependency in enumerate(dependencies_of(spec)):
        if is_local(dependency.job):
            problem = f"{dependency.job!r} is not a job id; names go with graphs, see jobs:batch"
            raise Invalid(f"depends_on[{index}]", problem)


def resolve(submission: Submission, job_ids: Mapping[str, int]) -> Submission:
    """Replace local names by ids.

    Two names may turn out to be one job, under one idempotency key; it is waited for once. Raises
    Invalid if it would have to end in two ways.
    """
    spec = submission.spec

    def find(job: str) -> str:
        return str(job_ids[job]) if is_local(job) else job

    conditions: dict[str, Condition] = {}
    for index, dependency in enumerate(dependencies_of(spec)):
        job, condition = find(dependency.job), dependency.condition
        if conditions.setdefault(job, condition) != condition:
            problem = f"{dependency.job} is job {job}, named before otherwise; name it once"
            raise Invalid(f"depends_on[{index}]", problem)
    depends_on = [Dependency(job, condition) for job, condition in conditions.items()]
    results = [ResultPosition(r.path, find(r.job)) for r in spec.entrypoint.results]
    entrypoint: Entrypoint = msgspec.structs.replace(spec.entrypoint, results=results)
    named = msgspec.structs.replace(
        spec,
        entrypoint=entrypoint,
        depends_on=[d.job if d.condition == "succeeded" else d for d in depends_on],
    )
    return msgspec.structs.replace(submission, spec=named)
