"""Whatever is submitted by SQL is stored, or refused, as the server would have done it."""

import json
import math
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Backoff, Entrypoint, JobSpec, Limits, Submission
from holdfast.model.submitting.unique import Unique
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.store.two_ways import NOW, SPEC, TwoWays

FUNCTION = SPEC["entrypoint"]
YEAR = 366 * 86_400.0
WHITESPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"
)


@pytest.fixture
async def two_ways(ledger: Ledger, database_url: str) -> AsyncIterator[TwoWays]:
    """Both ways into one database, whose clock stands still."""
    connection = await connect(database_url)
    try:
        await connection.execute(
            "create or replace function holdfast.now() returns timestamptz language sql volatile "
            f"as $$select timestamptz '{NOW.isoformat()}'$$"
        )
        yield TwoWays(ledger, connection)
    finally:
        await connection.close()


def in_order(value: dict[str, Any]) -> dict[str, Any]:
    """Order keys as jsonb does: of several that are wrong, the first one is named."""
    return dict(sorted(value.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode())))


# A backtick in the name of an unknown field hides that name in the server's message.
TEXTS = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\x00`"))
NAMES = TEXTS.filter(bool)
PAIRS = some.dictionaries(NAMES, TEXTS, max_size=3)
FLOATS = some.floats(allow_nan=False, allow_infinity=False)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-(10**30), 10**30) | FLOATS | TEXTS,
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(TEXTS, inner, max_size=3).map(in_order)
    ),
    max_leaves=5,
)
LINES = some.text(some.sampled_from(WHITESPACE + "ab-/\\\"'ü")) | TEXTS
ENTRYPOINTS = some.one_of(
    some.fixed_dictionaries(
        {"function": some.sampled_from(["a:b", "app.jobs:Work.run", "_a1.b:_c", "größe:übung"])},
        optional={
            "args": some.lists(VALUES, max_size=3),
            "kwargs": some.dictionaries(TEXTS, VALUES, max_size=3),
            "shell": some.none(),
        },
    ),
    some.fixed_dictionaries({"command": some.builds(lambda *words: [*words], NAMES, TEXTS)}),
    some.fixed_dictionaries({"shell": LINES.filter(str.strip)}, optional={"args": some.just([])}),
    some.fixed_dictionaries({"pickle": NAMES}, optional={"command": some.none()}),
)
FIELDS: dict[str, some.SearchStrategy[Any]] = {
    "name": some.none() | NAMES,
    "type": some.none() | NAMES,
    "owner": some.none() | NAMES,
    "queue": some.none() | some.sampled_from(["q", "Mail-High.v2:eu/west_1"]),
    "environment": PAIRS,
    "labels": PAIRS,
    "max_attempts": some.none() | some.integers(1, 10_001),
    "max_retries_failure": some.none() | some.integers(0, 10_000),
    "max_retries_preemption": some.none() | some.integers(0, 10_000),
    "backoff": some.fixed_dictionaries(
        {},
        optional={
            "base": some.floats(0, 60),
            "factor": some.integers(1, 100) | some.floats(1, 100),
            "ceiling": some.floats(60, 86_400),
        },
    ),
    "max_task_failures": some.none() | some.integers(0, 10_000_000),
    "on_exhausted": some.sampled_from([None, "fail", "dead_letter"]),
    "scheduling_timeout": some.none() | some.floats(0.001, YEAR),
    "timeout": some.none() | some.integers(1, 10**7) | some.floats(0.001, YEAR),
    "on_timeout": some.sampled_from([None, "kill", "fail"]),
    "lease": some.none() | some.integers(30, 120) | some.floats(30, 120),
    "grace": some.none() | some.floats(0, 86_400),
    "not_before": some.none()
    | some.floats(0, 253_370_764_800)
    | some.floats(-1, 1).map(lambda shift: NOW.timestamp() + shift),
    "expires": some.none() | some.floats(0.001, YEAR),
    "priority": some.integers(-1_000_000, 1_000_000),
    "concurrency_key": some.none() | NAMES | some.just({"input": None}),
    "slots": some.none() | some.integers(1, 1000),
    "idempotency_key": some.none() | NAMES,
    "correlation_id": some.none() | NAMES,
    "trace_id": some.none() | NAMES,
    "verbose_events": some.none() | some.booleans(),
    "unique": some.none()
    | some.fixed_dictionaries(
        {},
        optional={
            "values": some.none() | some.lists(VALUES, max_size=2),
            "owner": some.booleans(),
            "period": some.none() | some.integers(1, 10**7) | some.floats(1, YEAR),
            "on_conflict": some.sampled_from(["first", "refuse"]),
            "states": some.sampled_from([None, ["pending"], ["killed", "running", "pending"]]),
            "keep_start": some.just(False),
        },
    ),
    "chain": some.none() | NAMES,
}
SHAPES = some.one_of(
    some.none(),
    some.builds(lambda count: {"replicas": count}, some.none() | some.integers(1, 5)),
    some.lists(VALUES, min_size=1, max_size=4),
)
# Anything at all, wherever it does not belong.
JUNK = some.one_of(
    some.sampled_from(
        [None, True, False, 0, -1, 1, 1.0, 0.5, 10**9, 10**30, 10**400, -(10**400), 1e300, 1e-320]
    ),
    some.sampled_from(["", " ", "x", "a b", "a:b", "-a", "é", "x" * 256, "x" * 257, "'", "\\"]),
    some.sampled_from([[], {}, [1], ["a"], ["", "a"], [None], {"a": 1}, {"a": "b"}, {"": "a"}]),
    some.sampled_from([{"x" * 257: "a"}, {"a": "x" * 65_537}, {"a": None}, {"base": 1}]),
    VALUES,
)
SERVER_ONLY = (
    "resources", "constraints", "coscheduling", "bundle", "requirements", "depends_on",
    "compensation", "outputs", "start_delay", "start_rate",
)  # fmt: skip
PLACES = [(field,) for field in JobSpec.__struct_fields__ if field not in SERVER_ONLY] + [
    ("colour",),
    *[
        ("entrypoint", part)
        for part in (*Entrypoint.__struct_fields__, "colour")
        if part != "results"
    ],
    *[("backoff", part) for part in (*Backoff.__struct_fields__, "colour")],
    *[("unique", part) for part in (*Unique.__struct_fields__, "colour")],
    ("labels", "a"),
    ("environment", "a"),
    ("concurrency_key", "input"),
    ("concurrency_key", "colour"),
]  # fmt: skip


def bounded(examples: int) -> settings:
    """Bound a property; the fixture is shared by its examples on purpose."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@some.composite
def submissions(draw: some.DrawFn) -> tuple[dict[str, Any], list[Any] | None]:
    """Draw a spec with a few of its fields, and inputs, that nothing is wrong with."""
    fields = {"entrypoint": draw(ENTRYPOINTS)}
    for field in draw(some.lists(some.sampled_from(sorted(FIELDS)), unique=True, max_size=8)):
        fields[field] = draw(FIELDS[field])
    if fields.get("max_attempts") is not None:
        fields.pop("max_retries_failure", None)
    shape = draw(SHAPES)
    if isinstance(shape, dict):
        return fields | shape, None
    return fields, shape


def put(fields: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Put a value at a place of a spec."""
    if len(place) == 1:
        return fields | {place[0]: value}
    around = fields.get(place[0])
    around = around if isinstance(around, dict) else {}
    return fields | {place[0]: in_order(around | {place[1]: value})}


@bounded(150)
@given(submission=submissions())
async def test_both_ways_store_the_same(
    two_ways: TwoWays, submission: tuple[dict[str, Any], list[Any] | None]
) -> None:
    assert isinstance(await two_ways.compare(*submission), dict)


@bounded(100)
@given(line=LINES, form=some.sampled_from(["shell", "command"]))
async def test_both_ways_name_a_job_after_the_same_word(
    two_ways: TwoWays, line: str, form: str
) -> None:
    await two_ways.compare({"entrypoint": {form: line if form == "shell" else [line]}})


@bounded(300)
@given(submission=submissions(), place=some.sampled_from(PLACES), junk=JUNK)
async def test_both_ways_refuse_a_misplaced_value_by_the_same_field(
    two_ways: TwoWays,
    submission: tuple[dict[str, Any], list[Any] | None],
    place: tuple[str, ...],
    junk: Any,
) -> None:
    fields, inputs = submission
    replicas = junk if place == ("replicas",) else 1
    # What is too large for one transaction is the one thing that the server takes and SQL refuses.
    if isinstance(replicas, int) and 10_000 < replicas <= 10_000_000:
        return
    await two_ways.compare(put(fields, place, junk), inputs)


@pytest.mark.parametrize("field", SERVER_ONLY)
async def test_what_needs_the_server_is_not_taken_by_sql(two_ways: TwoWays, field: str) -> None:
    assert await two_ways.by_sql({**SPEC, field: None}) == field


async def test_results_of_other_jobs_are_not_taken_by_sql(two_ways: TwoWays) -> None:
    entrypoint = {"function": "a:b", "results": []}
    assert await two_ways.by_sql({**SPEC, "entrypoint": entrypoint}) == "entrypoint.results"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def spec_of_size(size: int) -> dict[str, Any]:
    """Make a spec that the server writes in this many bytes; Postgres takes some more."""
    spec = SPEC | {"entrypoint": {"function": "a:b", "args": [""]}}
    complete = complete_submission(Submission(parse_spec(spec)), Limits()).spec
    letters = size - len(msgspec.json.encode(complete))
    return SPEC | {"entrypoint": {"function": "a:b", "args": ["x" * letters]}}


EDGES: list[tuple[Any, Any, str | None]] = [
    (None, None, "spec"),
    ([], None, "spec"),
    ("entrypoint", None, "spec"),
    ({}, None, "entrypoint"),
    ({"queue": "q"}, None, "entrypoint"),
    (SPEC | {"entrypoint": {"function": "a:b", "args": nested(99)}}, None, None),
    (SPEC | {"entrypoint": {"function": "a:b", "args": [nested(99)]}}, None, None),
    (SPEC | {"entrypoint": {"function": "a:b", "args": [nested(100)]}}, None, "entrypoint.args"),
    (SPEC | {"entrypoint": {"function": "a:b", "kwargs": {"a": nested(99)}}}, None, None),
    (SPEC | {"entrypoint": {"function": "a:b", "kwargs": {"a": nested(100)}}}, None,
     "entrypoint.kwargs"),
    (SPEC, [nested(100)], None),
    (SPEC, [1, nested(101)], "inputs[1]"),
    (SPEC, [], "inputs"),
    (SPEC | {"replicas": 1}, [1], "replicas"),
    (SPEC, ["x" * ((1 << 20) - 2)], None),
    (SPEC, [1, "x" * ((1 << 20) - 1)], "inputs[1]"),
    (SPEC, [None, True, "ä\u2028😀", {"a": {"b": [1.5]}}], None),
    (spec_of_size((1 << 20) - 1000), None, None),
    (spec_of_size((1 << 20) + 1), None, "spec"),
    (SPEC | {"labels": {"a" * 256: "x" * 65_536}}, None, None),
    (SPEC | {"labels": {"a": "x" * 65_537}}, None, "labels.a"),
    (SPEC | {"name": "ü" * 256}, None, None),
    (SPEC | {"name": "ü" * 257}, None, "name"),
    (SPEC | {"entrypoint": {"command": ["/"]}}, None, None),
    (SPEC | {"entrypoint": {"command": ["a\n/b\n/c//"]}}, None, None),
    (SPEC | {"entrypoint": {"command": ["b" * 999]}}, None, None),
    (SPEC | {"backoff": {"base": 61}}, None, "backoff.ceiling"),
    (SPEC | {"backoff": {}}, None, None),
    (SPEC | {"backoff": {"base": 5e-324, "factor": 1.0000000000000002}}, None, None),
    (SPEC | {"grace": 1e-6, "timeout": 1e5, "scheduling_timeout": 0.1 + 0.2}, None, None),
    (SPEC | {"not_before": 1_900_000_000.1234565}, None, None),
    (SPEC | {"max_attempts": 2, "max_retries_failure": 1}, None, "max_attempts"),
    (SPEC | {"concurrency_key": "x" * 256}, None, None),
    (SPEC | {"concurrency_key": "x" * 257}, None, "concurrency_key"),
    (SPEC | {"concurrency_key": ""}, None, "concurrency_key"),
    (SPEC | {"concurrency_key": 1}, None, "concurrency_key"),
    (SPEC | {"concurrency_key": {"input": "a.0.b"}}, [{"a": [{"b": 7}]}], None),
    (SPEC | {"concurrency_key": {"input": ""}}, ["a", 7, None], None),
    (SPEC | {"concurrency_key": {"input": "a..b"}}, None, "concurrency_key.input"),
    (SPEC | {"concurrency_key": {"input": "x" * 257}}, None, "concurrency_key.input"),
    (SPEC | {"concurrency_key": {"input": None}}, None, None),
    (SPEC | {"concurrency_key": {}}, ["a"], None),
    (SPEC | {"concurrency_key": {"input": 7}}, None, "concurrency_key.input"),
    (SPEC | {"concurrency_key": {"input": "a", "b": 1}}, None, "concurrency_key.b"),
    (SPEC | {"expires": 5, "expires_at": 2e9}, None, "expires"),
    (SPEC | {"not_before": 2e9, "expires_at": 2e9}, None, "expires_at"),
    (SPEC | {"not_before": 0, "expires_at": 0}, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "inputs", "field"), EDGES, ids=range(len(EDGES)))
async def test_the_edges_are_where_the_server_has_them(
    two_ways: TwoWays, fields: Any, inputs: Any, field: str | None
) -> None:
    stored = await two_ways.compare(fields, inputs)
    assert stored == field if field else isinstance(stored, dict)


RANGES = {
    "max_retries_failure": (0, 10_000),
    "max_retries_preemption": (0, 10_000),
    "max_attempts": (1, 10_001),
    "max_task_failures": (0, 10_000_000),
    "priority": (-1_000_000, 1_000_000),
    "slots": (1, 1000),
    "lease": (30.0, 120.0),
    "timeout": (0.001, YEAR),
    "scheduling_timeout": (0.001, YEAR),
    "grace": (0.0, 86_400.0),
    "not_before": (0.0, 253_370_764_800.0),
    "expires": (0.001, YEAR),
    "expires_at": (0.0, 253_370_764_800.0),
}


@pytest.mark.parametrize("field", RANGES)
async def test_a_range_ends_where_the_server_has_it(two_ways: TwoWays, field: str) -> None:
    for value in RANGES[field]:
        assert isinstance(await two_ways.compare(SPEC | {field: value}), dict)
    least, most = RANGES[field]
    below = least - 1 if isinstance(least, int) else math.nextafter(least, -math.inf)
    above = most + 1 if isinstance(most, int) else math.nextafter(most, math.inf)
    for value in (below, above):
        assert await two_ways.compare(SPEC | {field: value}) == field


@pytest.mark.parametrize(
    "function",
    ["", "work", "app:", ":work", "app.work", "a..b:c", ".a:b", "a.:b", "a:b.", "a:b:c", "a b:c",
     "1a:b", "a:1b", "a:<lambda>", "a:f.<locals>.g", "a:b\n", "a-b:c"],
    ids=repr,
)  # fmt: skip
async def test_a_function_that_cannot_be_imported_is_refused(
    two_ways: TwoWays, function: str
) -> None:
    fields = SPEC | {"entrypoint": {"function": function}}
    assert await two_ways.compare(fields) == "entrypoint.function"


@pytest.mark.parametrize("number", ["1e309", "-1e309", "1" + "0" * 5000])
async def test_a_number_that_no_decoder_reads_is_refused(two_ways: TwoWays, number: str) -> None:
    spec = '{"entrypoint": {"function": "a:b", "args": [{"a": 0}]}}'.replace("0", number)
    for call, values, field in (
        ("holdfast.submit($1)", [spec], "entrypoint.args"),
        ("holdfast.submit($1, $2)", [json.dumps(SPEC), f"[1, {number}]"], "inputs[1]"),
    ):
        with pytest.raises(asyncpg.InvalidParameterValueError) as caught:
            await two_ways.connection.fetchval(f"select {call}", *values)
        assert caught.value.column_name == field


async def test_a_number_too_small_for_a_float_is_nought(two_ways: TwoWays) -> None:
    spec = '{"entrypoint": {"function": "a:b"}, "grace": 1e-400, "lease": 1e400}'
    with pytest.raises(asyncpg.InvalidParameterValueError, match="lease: is out of range"):
        await two_ways.connection.fetchval("select holdfast.submit($1)", spec)
    spec = spec.replace("1e400", "30")
    job_id = await two_ways.connection.fetchval("select holdfast.submit($1)", spec)
    stored = await two_ways.rows(job_id)
    assert stored["jobs"][0]["spec"]["grace"] == 0


async def test_the_limits_of_sql_are_those_of_the_server(two_ways: TwoWays) -> None:
    limits = dict(await two_ways.connection.fetchrow("select * from holdfast.limits"))
    assert limits.pop("one")
    assert limits == {name: getattr(Limits(), name) for name in limits}


async def test_an_operator_may_widen_the_range_of_leases(two_ways: TwoWays) -> None:
    await two_ways.connection.execute(
        "update holdfast.limits set lease_seconds_min = $1, lease_seconds_max = 900", 100 / 3
    )
    two_ways.ledger.limits = Limits(lease_seconds_min=100 / 3, lease_seconds_max=900.0)
    for spec in (SPEC, SPEC | {"lease": 900}, SPEC | {"queue": None}):
        assert isinstance(await two_ways.compare(spec), dict)
    for lease in (33.3, 900.1):
        assert await two_ways.compare(SPEC | {"lease": lease}) == "lease"


async def test_what_came_in_both_ways_leaves_the_audit_silent(two_ways: TwoWays) -> None:
    for fields, inputs in ((SPEC, None), (SPEC, [1, 2]), (SPEC | {"not_before": 2e9}, None)):
        assert isinstance(await two_ways.by_sql(fields, inputs), int)
        assert isinstance(await two_ways.by_python(fields, inputs), int)
    await assert_audit_is_silent(two_ways.ledger.database)
