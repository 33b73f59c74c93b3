"""A job whose type has a policy becomes the same by SQL as through the server."""

from contextlib import suppress
from typing import Any

import asyncpg
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid
from holdfast.model.submitting.policies import PolicyDefaults, TypePolicy
from holdfast.operations.policies import set_policy
from tests.store.test_sql_submit_parity import FIELDS, bounded, two_ways
from tests.store.two_ways import SPEC, TwoWays, sql_submit

__all__ = ["two_ways"]
BACKOFFS = some.fixed_dictionaries({"base": some.floats(0, 10), "ceiling": some.floats(10, 100)})
DEFAULTS = {
    "lease": some.floats(30, 120),
    "max_retries_failure": some.integers(0, 20),
    "max_retries_preemption": some.integers(0, 20),
    "backoff": BACKOFFS,
    "on_exhausted": FIELDS["on_exhausted"],
    "timeout": some.integers(1, 100) | some.floats(0.001, 100),
    "on_timeout": FIELDS["on_timeout"],
    "grace": some.floats(0, 100),
    "priority": some.integers(-20, 20),
    "verbose_events": some.booleans(),
}
LIMITS = {
    "lease_min": some.floats(30, 60),
    "lease_max": some.floats(60, 120),
    "max_retries_failure": some.integers(0, 20),
    "max_retries_preemption": some.integers(0, 20),
    "timeout": some.floats(0.001, 100),
    "grace": some.floats(0, 100),
    "priority": some.integers(-20, 20),
    "backoff_ceiling": some.floats(0, 100),
    "tasks": some.integers(1, 5),
    "on_exhausted": FIELDS["on_exhausted"],
    "on_timeout": FIELDS["on_timeout"],
    "verbose_events": some.booleans(),
}
# What jobs ask for within reach of these limits.
ASKED = {
    **{name: some.none() | values for name, values in DEFAULTS.items()},
    "max_attempts": some.none() | some.integers(1, 20),
    "queue": some.sampled_from([None, "q"]),
}


def some_of(fields: dict[str, some.SearchStrategy[Any]]) -> some.SearchStrategy[dict[str, Any]]:
    return some.fixed_dictionaries({}, optional=fields)


@bounded(60)
@given(
    defaults=some_of(DEFAULTS),
    limits=some_of(LIMITS),
    asked=some_of(ASKED),
    tasks=some.integers(1, 6),
)
async def test_both_ways_follow_the_policy_of_a_type(
    two_ways: TwoWays,
    defaults: dict[str, Any],
    limits: dict[str, Any],
    asked: dict[str, Any],
    tasks: int,
) -> None:
    policy = msgspec.convert({"defaults": defaults, "limits": limits}, TypePolicy)
    with suppress(Invalid):  # a default is beyond its limit
        await set_policy(two_ways.ledger, "work", policy, actor="ann")
    if asked.get("max_attempts") is not None:
        asked.pop("max_retries_failure", None)
    for fields, inputs in ((SPEC | {"replicas": tasks}, None), (SPEC, [0] * tasks)):
        await two_ways.compare(fields | asked, inputs)


BEYOND: list[tuple[dict[str, Any], dict[str, Any], list[int] | None, str]] = [
    ({"lease_min": 40.0}, {"lease": 35}, None, "lease"),
    ({"lease_max": 40.0}, {"lease": 45}, None, "lease"),
    ({"max_retries_failure": 2}, {"max_retries_failure": 3}, None, "max_retries_failure"),
    ({"max_retries_failure": 2}, {"max_attempts": 4}, None, "max_attempts"),
    ({"max_retries_preemption": 0}, {"max_retries_preemption": 1}, None, "max_retries_preemption"),
    ({"timeout": 9.0}, {"timeout": 10}, None, "timeout"),
    ({"grace": 9.0}, {"grace": 10}, None, "grace"),
    ({"priority": 1}, {"priority": 2}, None, "priority"),
    ({"backoff_ceiling": 9.0}, {"backoff": {}}, None, "backoff.ceiling"),
    ({"on_exhausted": "fail"}, {"on_exhausted": "dead_letter"}, None, "on_exhausted"),
    ({"on_timeout": "kill"}, {"on_timeout": "fail"}, None, "on_timeout"),
    ({"verbose_events": False}, {"verbose_events": True}, None, "verbose_events"),
    ({"tasks": 2}, {"replicas": 3}, None, "replicas"),
    ({"tasks": 2}, {}, [1, 2, 3], "inputs"),
]


async def test_both_ways_refuse_what_is_beyond_a_limit_by_the_same_field(two_ways: TwoWays) -> None:
    for limits, asked, inputs, field in BEYOND:
        policy = msgspec.convert({"limits": limits}, TypePolicy)
        await set_policy(two_ways.ledger, "work", policy, actor="ann")
        assert await two_ways.compare(SPEC | asked, inputs) == field, limits
        assert isinstance(await two_ways.compare(SPEC), dict), limits


async def test_a_limit_of_attempts_is_said_as_one(two_ways: TwoWays) -> None:
    policy = msgspec.convert({"limits": {"max_retries_failure": 2}}, TypePolicy)
    await set_policy(two_ways.ledger, "work", policy, actor="ann")
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"4 is .* use at most 3"):
        await sql_submit(two_ways.connection, SPEC | {"max_attempts": 4})


async def test_a_repeat_is_one_whatever_the_policy_has_become(two_ways: TwoWays) -> None:
    ledger, fields = two_ways.ledger, SPEC | {"idempotency_key": "k"}
    first = await two_ways.by_python(fields)
    for retries in (1, 2):
        policy = TypePolicy(PolicyDefaults(max_retries_failure=retries))
        await set_policy(ledger, "work", policy, actor="ann")
        assert await two_ways.by_sql(fields) == first
        assert await two_ways.by_python(fields) == first
    assert await two_ways.by_sql(fields | {"max_retries_failure": 2}) == "idempotency_key"


async def test_keys_of_the_servers_own_are_not_taken(two_ways: TwoWays) -> None:
    fields = SPEC | {"idempotency_key": "holdfast:undo:1"}
    assert await two_ways.compare(fields) == "idempotency_key"
