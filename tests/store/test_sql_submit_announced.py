"""What workers have announced of a function is added by SQL as by the server."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as some

from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions
from holdfast.model.workers.resources import Resources
from holdfast.operations.announce import announce
from tests.store.test_sql_submit_parity import FUNCTION, bounded, submissions, two_ways
from tests.store.two_ways import SPEC, TwoWays

__all__ = ["two_ways"]


@bounded(150)
@given(
    submission=submissions(),
    announced=submissions(),
    is_placed=some.booleans(),
    is_narrow=some.booleans(),
)
async def test_both_ways_add_what_workers_have_announced(
    two_ways: TwoWays,
    submission: tuple[dict[str, Any], list[Any] | None],
    announced: tuple[dict[str, Any], list[Any] | None],
    is_placed: bool,
    is_narrow: bool,
) -> None:
    fields, inputs = submission
    function = fields["entrypoint"].get("function") or "a:b"
    options = {
        name: value
        for name, value in announced[0].items()
        if name in FunctionOptions.__struct_fields__ and value is not None
    }
    if is_narrow and "queue" in options:
        options["only_in_queue"] = True
    said = AnnouncedFunction(path=function, options=msgspec.convert(options, FunctionOptions))
    made = await announce(two_ways.ledger, "w", [said])
    assert not made.refused
    if is_placed and fields.get("queue") is None:
        fields = fields | {"placed": True}
    stored = await two_ways.compare(fields, inputs)
    assert isinstance(stored, dict)
    if fields["entrypoint"].get("function") == function and fields.get("queue") is None:
        is_left_alone = "placed" in fields or "only_in_queue" in options
        queue = None if is_left_alone else options.get("queue")
        assert stored["jobs"][0]["queue"] == queue


async def test_what_is_announced_and_needs_the_server_is_not_taken_by_sql(
    two_ways: TwoWays,
) -> None:
    options = FunctionOptions(resources=Resources(cpu=1), max_retries_failure=3)
    said = AnnouncedFunction(path="app.jobs:work", options=options)
    await announce(two_ways.ledger, "w", [said])
    assert await two_ways.by_sql({"entrypoint": FUNCTION}) == "resources"
    stored = await two_ways.compare(SPEC)  # by its own queue, it asks nothing of placed workers
    assert isinstance(stored, dict)
    assert stored["jobs"][0]["spec"]["max_retries_failure"] == 3


async def test_a_job_may_be_placed_where_a_queue_was_announced(two_ways: TwoWays) -> None:
    said = AnnouncedFunction(path="app.jobs:work", options=FunctionOptions(queue="mail"))
    await announce(two_ways.ledger, "w", [said])
    for fields, queue in (({}, "mail"), ({"queue": "q"}, "q"), ({"placed": True}, None)):
        stored = await two_ways.compare({"entrypoint": FUNCTION} | fields)
        assert isinstance(stored, dict)
        assert stored["jobs"][0]["queue"] == queue
    assert await two_ways.by_sql({**SPEC, "placed": True}) == "placed"


async def test_a_repeat_is_known_whatever_was_announced_in_between(two_ways: TwoWays) -> None:
    spec = {"entrypoint": FUNCTION, "idempotency_key": "k"}
    first = await two_ways.by_python(spec)
    options = FunctionOptions(queue="mail", owner="team")
    said = AnnouncedFunction(path="app.jobs:work", options=options)
    await announce(two_ways.ledger, "w", [said])
    assert await two_ways.by_python(spec) == first
    assert await two_ways.by_sql(spec) == first
    stored = await two_ways.compare(spec | {"idempotency_key": "first after that"})
    assert isinstance(stored, dict)
    assert stored["jobs"][0]["owner"] == "anonymous"
