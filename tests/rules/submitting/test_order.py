"""What a job may wait for, and in which order the jobs of a graph are stored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.order import Dependency
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.rules.submitting.order import (
    PATH_LENGTH_MAX,
    check_order,
    dependencies_of,
    is_local,
    refuse_local_names,
    resolve,
    sort_graph,
)
from holdfast.rules.submitting.submission import parse_spec

FUNCTION = {"function": "app:work", "args": [1, {"of": [2, 3]}], "kwargs": {"table": None}}


def a_job(name: str | None = None, **fields: Any) -> Submission:
    """Describe one job of a graph."""
    return Submission(parse_spec({"entrypoint": FUNCTION} | fields), local_name=name)


def ended(job: str) -> dict[str, str]:
    """Wait for a job however it ends."""
    return {"job": job, "condition": "ended"}


def with_result(path: list[Any], job: str = "7", **entrypoint: Any) -> Submission:
    """Describe a job that has the result of another among its arguments."""
    results = [{"path": path, "job": job}]
    return a_job(entrypoint=FUNCTION | {"results": results} | entrypoint, depends_on=["7"])


def problem_with(submission: Submission, limits: Limits | None = None) -> Invalid:
    """Say why a submission is refused."""
    with pytest.raises(Invalid) as refused:
        check_order(submission, limits or Limits())
    return refused.value


# Dependencies


def test_ids_names_and_conditions_are_taken() -> None:
    job = a_job("load", depends_on=["7", "extract.v-2", ended("8")])
    check_order(job, Limits())
    assert dependencies_of(job.spec) == [
        Dependency("7"),
        Dependency("extract.v-2"),
        Dependency("8", "ended"),
    ]
    assert [is_local(d.job) for d in dependencies_of(job.spec)] == [False, True, False]


@pytest.mark.parametrize("job", ["", "1x", "-1", "0", "007", "²", "٣", str(2**63), "a b", "ä"])
def test_what_names_no_job_is_refused_with_its_place(job: str) -> None:
    assert problem_with(a_job(depends_on=["7", job])).field == "depends_on[1]"


def test_a_job_is_named_once() -> None:
    assert problem_with(a_job(depends_on=["7", ended("7")])).field == "depends_on[1]"


def test_dependencies_are_limited() -> None:
    limits = Limits(dependencies_max=2)
    check_order(a_job(depends_on=["7", "8"]), limits)
    too_many = problem_with(a_job(depends_on=["7", "8", "9"]), limits)
    assert isinstance(too_many, TooLarge)


@pytest.mark.parametrize("name", ["", "7", "7x", "a b", "-a"])
def test_a_local_name_cannot_be_taken_for_an_id(name: str) -> None:
    assert problem_with(a_job(name)).field == "local_name"


def test_names_mean_nothing_outside_of_a_graph() -> None:
    refuse_local_names(a_job(depends_on=["7", ended("8")]).spec)
    with pytest.raises(Invalid, match=r"depends_on\[1\].*'extract'"):
        refuse_local_names(a_job(depends_on=["7", ended("extract")]).spec)


# Results among arguments


@pytest.mark.parametrize(
    "path", [["args", 0], ["args", 1, "of"], ["args", 1, "of", 1], ["kwargs", "table"]]
)
def test_a_result_may_stand_in_the_place_of_any_argument(path: list[Any]) -> None:
    check_order(with_result(path), Limits())


@pytest.mark.parametrize(
    "path",
    [
        [], ["args"], ["results", 0], ["args", 2], ["args", -1], ["args", "0"],
        ["args", 0, 0], ["args", 1, 0], ["kwargs", "other"], ["args", *[0] * PATH_LENGTH_MAX],
    ],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_refused(path: list[Any]) -> None:
    assert problem_with(with_result(path)).field == "entrypoint.results[0]"


@pytest.mark.parametrize("is_pickled", [False, True])
@pytest.mark.parametrize(
    ("paths", "culprit"),
    [
        ([["args", 0], ["args", 0]], 1),
        ([["args", 1], ["kwargs", "table"], ["args", 1, "of", 0]], 2),
        ([["args", 1, "of", 1], ["args", 1, "of"]], 0),
        ([["args", 1, "of", 0], ["args", 1, "of", 1], ["args", 0]], None),
    ],
)
def test_a_position_within_another_is_refused(
    paths: list[list[Any]], culprit: int | None, is_pickled: bool
) -> None:
    given = {"pickle": "gAR9"} if is_pickled else FUNCTION
    results = [{"path": path, "job": "7"} for path in paths]
    job = a_job(entrypoint=given | {"results": results}, depends_on=["7"])
    if culprit is None:
        check_order(job, Limits())
        return
    problem = problem_with(job)
    assert problem.field == f"entrypoint.results[{culprit}]"
    assert "its own position" in problem.problem


def test_a_pickle_can_only_be_looked_into_by_who_unpickles_it() -> None:
    pickled: dict[str, Any] = {"function": None, "pickle": "gAR9", "args": [], "kwargs": {}}
    check_order(with_result(["args", 5], **pickled), Limits())
    assert problem_with(with_result(["args"], **pickled)).field == "entrypoint.results[0]"


def test_a_result_needs_a_function_and_a_job_that_has_succeeded() -> None:
    command: dict[str, Any] = {"function": None, "shell": "true", "args": [], "kwargs": {}}
    assert "function only" in problem_with(with_result(["args", 0], **command)).problem
    assert "depends_on" in problem_with(with_result(["args", 0], job="8")).problem
    results = [{"path": ["args", 0], "job": "7"}]
    later = a_job(entrypoint=FUNCTION | {"results": results}, depends_on=[ended("7")])
    assert "succeeded" in problem_with(later).problem


# Graphs


def test_a_graph_is_sorted_and_otherwise_left_as_given() -> None:
    graph = [
        a_job("load", depends_on=["left", "right", "7"]),
        a_job("left", depends_on=["extract"]),
        a_job("right", depends_on=[ended("extract")]),
        a_job("extract"),
        a_job(),
    ]
    assert sort_graph(graph) == [3, 4, 1, 2, 0]


def test_a_name_is_given_once_and_known() -> None:
    with pytest.raises(Invalid, match=r"specs\[1\].local_name: 'a' is taken"):
        sort_graph([a_job("a"), a_job("a")])
    with pytest.raises(Invalid, match=r"specs\[1\].depends_on\[0\]: .*'b'; there are a"):
        sort_graph([a_job("a"), a_job(depends_on=["b"])])


@pytest.mark.parametrize(
    "waits", [{"a": "a"}, {"a": "b", "b": "a"}, {"x": "a", "a": "b", "b": "a"}]
)
def test_a_cycle_is_named_without_those_who_only_wait_for_it(waits: dict[str, str]) -> None:
    graph = [a_job(name, depends_on=[other]) for name, other in waits.items()]
    with pytest.raises(Invalid) as refused:
        sort_graph(graph)
    assert "x" not in refused.value.problem.split(":")[1]
    assert refused.value.problem.endswith("a; break it")


def test_of_a_long_cycle_a_few_names_are_told() -> None:
    size = 10_000
    graph = [a_job(f"j{n}", depends_on=[f"j{(n + 1) % size}"]) for n in range(size)]
    with pytest.raises(Invalid, match=r"j0 -> j1 -> .* -> \.\.\. -> j0; break it") as refused:
        sort_graph(graph)
    assert len(str(refused.value)) < 200


@given(some.permutations(range(12)), some.lists(some.tuples(*[some.integers(0, 11)] * 2)))
def test_whatever_has_no_cycle_is_sorted(ranks: list[int], edges: list[tuple[int, int]]) -> None:
    waits: dict[int, set[str]] = {n: set() for n in range(12)}
    for one, other in edges:
        if ranks[one] != ranks[other]:
            earlier, later = sorted((one, other), key=lambda n: ranks[n])
            waits[later].add(f"j{earlier}")
    order = sort_graph([a_job(f"j{n}", depends_on=sorted(waits[n])) for n in range(12)])
    assert sorted(order) == list(range(12))
    for n in range(12):
        assert all(order.index(int(name[1:])) < order.index(n) for name in waits[n])


def test_names_become_ids_in_dependencies_and_results() -> None:
    results = [{"path": ["args", 0], "job": "extract"}]
    job = a_job(
        "load",
        entrypoint=FUNCTION | {"results": results},
        depends_on=["extract", {"job": "watch", "condition": "failed"}, "5"],
    )
    named = resolve(job, {"extract": 7, "watch": 8})
    assert named.spec.depends_on == ["7", Dependency("8", "failed"), "5"]
    assert named.spec.entrypoint.results[0].job == "7"
    assert named.local_name == "load"


def test_two_names_of_one_job_are_one_dependency_unless_they_differ() -> None:
    assert resolve(a_job(depends_on=["a", "b", "7"]), {"a": 7, "b": 7}).spec.depends_on == ["7"]
    with pytest.raises(Invalid, match=r"depends_on\[1\]: b is job 7"):
        resolve(a_job(depends_on=["a", ended("b")]), {"a": 7, "b": 7})


def test_a_path_into_what_a_codec_has_encoded_cannot_be_followed() -> None:
    entrypoint = FUNCTION | {
        "args": [{"$holdfast_codec": "fernet", "v": 1, "data": "eA=="}],
        "results": [{"path": ["args", 0, "one", 2], "job": "7"}],
    }
    spec = parse_spec({"entrypoint": entrypoint, "depends_on": ["7"]})
    check_order(Submission(spec), Limits())
