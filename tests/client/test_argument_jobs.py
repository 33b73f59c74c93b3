"""Jobs among arguments: found wherever they stand, and replaced without touching the rest."""

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

from holdfast.client.argument_jobs import DEPTH_MAX, find_jobs, replace_all
from holdfast.client.client import Client
from holdfast.client.job import Job


class Pair(NamedTuple):
    """A tuple with a class of its own."""

    left: Any
    right: Any


@pytest.fixture
def job() -> Job[Any]:
    """A job in hand."""
    return Job(Client("http://127.0.0.1:9"), "7", 1)


def test_jobs_are_found_in_lists_tuples_and_dicts(job: Job[Any]) -> None:
    value = {"args": (1, [job, {"x": (2, job)}], "text"), "kwargs": {"a": job, 3: Pair(job, 1)}}
    assert [found.path for found in find_jobs(value)] == [
        ("args", 1, 0),
        ("args", 1, 1, "x", 1),
        ("kwargs", "a"),
        ("kwargs", 3, 0),
    ]
    assert all(found.job is job for found in find_jobs(value))


def test_what_is_shared_is_found_in_each_place_and_what_holds_itself_ends(job: Job[Any]) -> None:
    shared = [job]
    assert [found.path for found in find_jobs([shared, shared])] == [(0, 0), (1, 0)]
    endless: list[Any] = [[]]
    endless += [endless, endless]
    assert find_jobs(endless) == []
    endless.append(job)
    assert [found.path for found in find_jobs(endless)] == [(3,)]


def test_there_is_an_end_to_looking(job: Job[Any]) -> None:
    deep: Any = job
    for _ in range(DEPTH_MAX):
        deep = [deep]
    assert [len(found.path) for found in find_jobs(deep)] == [DEPTH_MAX]
    assert find_jobs([deep]) == []


def test_values_are_put_in_their_places_in_copies() -> None:
    row = [None, 2]
    table = OrderedDict(a=1, b=None)
    given = {"args": (row, Pair(None, 5), row), "kwargs": {"table": table}}
    replacements: list[tuple[list[Any], Any]] = [
        (["args", 0, 0], 1),
        (["args", 1, 0], (4,)),
        (["kwargs", "table", "b"], {"deep": []}),
    ]
    filled = replace_all(given, replacements)
    assert filled == {
        "args": ([1, 2], Pair((4,), 5), [None, 2]),
        "kwargs": {"table": OrderedDict(a=1, b={"deep": []})},
    }
    assert type(filled["args"][1]) is Pair
    assert type(filled["kwargs"]["table"]) is OrderedDict
    assert row == [None, 2]
    assert table["b"] is None
    assert replace_all(given, []) == given


@pytest.mark.parametrize("path", [["args", 5], ["other"], ["args", 0, "x"], ["kwargs", 0]])
def test_a_path_that_leads_nowhere_is_an_error(path: list[Any]) -> None:
    with pytest.raises((LookupError, TypeError)):
        replace_all({"args": (1,), "kwargs": {}}, [(path, 2)])
