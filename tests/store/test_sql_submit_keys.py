"""A path to the keys of tasks is taken, and refused, by SQL as by the server."""

import json
from typing import Any

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Submission
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions
from holdfast.operations.announce import announce
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from tests.store.test_sql_submit_parity import bounded, two_ways
from tests.store.two_ways import SPEC, TwoWays

__all__ = ["two_ways"]

FIELD = "concurrency_key.input"
STEPS = some.sampled_from(["a", "b", "0", "1", "-1", "-3", " +1", "1 ", "x1", "٣", "1" * 30])
PATHS = some.lists(STEPS, max_size=3).map(".".join)
SCALARS = some.sampled_from([None, True, 7, 1.5, "", "acme", "a"])
VALUES = some.recursive(
    SCALARS,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(["a", "b", "0"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def keyed(path: Any, **call: Any) -> dict[str, Any]:
    """Describe a job whose key is at a path."""
    return SPEC | {"entrypoint": {"function": "a:b"} | call, "concurrency_key": {"input": path}}


@bounded(300)
@given(path=PATHS, inputs=some.lists(VALUES, min_size=1, max_size=3))
@example(path="0", inputs=["acme"])
@example(path="a.b", inputs=[{"a": None}])
@example(path="a", inputs=[None])
async def test_both_ways_judge_a_path_into_inputs_alike(
    two_ways: TwoWays, path: str, inputs: list[Any]
) -> None:
    await two_ways.compare(keyed(path), inputs)


@bounded(200)
@given(
    path=PATHS,
    args=some.lists(VALUES, max_size=2),
    kwargs=some.dictionaries(some.sampled_from(["a", "b"]), VALUES, max_size=2),
)
async def test_both_ways_judge_a_path_into_arguments_alike(
    two_ways: TwoWays, path: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    await two_ways.compare(keyed(path, args=args, kwargs=kwargs))


@bounded(100)
@given(path=PATHS, value=VALUES)
async def test_what_is_taken_has_the_key_that_was_meant(
    two_ways: TwoWays, path: str, value: Any
) -> None:
    """No task runs without a key unless there is a null: that would be a limit that leaks."""
    for job_id in (
        await two_ways.by_sql(keyed(path), [value]),
        await two_ways.by_python(keyed(path, args=[value])),
    ):
        if job_id == FIELD:
            continue
        [row] = await two_ways.connection.fetch(
            "select holdfast.asked_key(spec, input) from holdfast.jobs join holdfast.tasks "
            "using (job_id) where job_id = $1",
            job_id,
        )
        found = value
        for step in path.split(".") if path else []:
            if found is not None:
                found = found[step] if isinstance(found, dict) else found[int(step)]
        assert row[0] == (found if isinstance(found, str | None) else json.dumps(found))


CASES = [
    (keyed("customer.id"), [{"customer": {"id": 1}}, {"customer": {"idd": 1}}]),
    (keyed("tenant"), [{"tenant": 1}, "acme"]),
    (keyed("customer"), [{"customer": {}}]),
    (keyed(""), [[1]]),
    (keyed("tenant", args=["acme"]), None),
    (keyed("tenant", kwargs={"tennant": 1}), None),
    (keyed("tenant", args=["acme"], kwargs={"tenant": "acme"}), None),
    (keyed("tenant"), None),
]


@pytest.mark.parametrize(("fields", "inputs"), CASES, ids=range(len(CASES)))
async def test_both_ways_say_the_same_of_it(
    two_ways: TwoWays, fields: dict[str, Any], inputs: list[Any] | None
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError) as by_sql:
        await two_ways.connection.fetchval(
            "select holdfast.submit($1, $2)",
            json.dumps(fields),
            None if inputs is None else json.dumps(inputs),
        )
    texts = None if inputs is None else parse_inputs(inputs)
    with pytest.raises(Invalid) as by_python:
        await submit_one(two_ways.ledger, Submission(parse_spec(fields), texts))
    assert by_python.value.field == FIELD
    assert str(by_python.value) == str(by_sql.value)


async def test_a_path_that_was_announced_is_followed_as_well(two_ways: TwoWays) -> None:
    options = FunctionOptions(
        queue="q", concurrency_key=parse_spec(keyed("tenant")).concurrency_key
    )
    made = await announce(two_ways.ledger, "w", [AnnouncedFunction(path="a:b", options=options)])
    assert not made.refused
    for call, inputs, key in (
        ({"args": ["acme"]}, None, FIELD),
        ({}, ["acme"], FIELD),
        ({"kwargs": {"tenant": "acme"}}, None, {"input": "tenant"}),
        ({}, [{"tenant": "acme"}], {"input": "tenant"}),
    ):
        stored = await two_ways.compare({"entrypoint": {"function": "a:b"} | call}, inputs)
        if key == FIELD:
            assert stored == FIELD
        else:
            assert isinstance(stored, dict)
            assert stored["jobs"][0]["spec"]["concurrency_key"] == key
    stored = await two_ways.compare(keyed(None, args=["acme"]))
    assert isinstance(stored, dict)
    assert "concurrency_key" not in stored["jobs"][0]["spec"]


async def test_without_a_step_the_path_is_stored_as_one(two_ways: TwoWays) -> None:
    stored = await two_ways.compare(SPEC | {"concurrency_key": {}}, ["a"])
    assert isinstance(stored, dict)
    assert stored["jobs"][0]["spec"]["concurrency_key"] == {"input": ""}
