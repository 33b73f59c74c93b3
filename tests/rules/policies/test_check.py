"""Checking a policy: whatever it says must be possible, for the server and for its own limits."""

from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.policies import TypePolicy
from holdfast.model.submitting.spec import Limits
from holdfast.rules.policies.check import check_policy, check_type, count_retries


def check(**parts: Any) -> None:
    check_policy("train", msgspec.convert(parts, TypePolicy), Limits())


def test_what_is_possible_is_taken() -> None:
    check()
    check(limits={"lease_min": 40.0, "lease_max": 40.0, "tasks": 10_000_000, "backoff_ceiling": 0})
    check(
        defaults={"lease": 60.0, "max_retries_failure": 5, "backoff": {"base": 0, "ceiling": 0}},
        limits={"lease_max": 60.0, "max_retries_failure": 5, "backoff_ceiling": 0},
    )


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("limits.lease_min", {"limits": {"lease_min": 29.0}}),
        ("limits.lease_max", {"limits": {"lease_max": 121.0}}),
        ("limits.lease_min", {"limits": {"lease_min": 50.0, "lease_max": 40.0}}),
        ("limits.max_retries_failure", {"limits": {"max_retries_failure": -1}}),
        ("limits.timeout", {"limits": {"timeout": 0.0}}),
        ("limits.priority", {"limits": {"priority": 10**7}}),
        ("limits.backoff_ceiling", {"limits": {"backoff_ceiling": 1e9}}),
        ("limits.age", {"limits": {"age": 0.5}}),
        ("limits.tasks", {"limits": {"tasks": 0}}),
        ("defaults.lease", {"defaults": {"lease": 10.0}}),
        ("defaults.lease", {"defaults": {"lease": 60.0}, "limits": {"lease_max": 50.0}}),
        ("defaults.backoff.ceiling", {"defaults": {"backoff": {"base": 61}}}),
        ("defaults.backoff.ceiling",
         {"defaults": {"backoff": {}}, "limits": {"backoff_ceiling": 5}}),
        ("defaults.on_exhausted",
         {"defaults": {"on_exhausted": "fail"}, "limits": {"on_exhausted": "dead_letter"}}),
        ("defaults.verbose_events",
         {"defaults": {"verbose_events": True}, "limits": {"verbose_events": False}}),
    ],
)  # fmt: skip
def test_what_is_impossible_is_refused_by_its_field(field: str, parts: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        check(**parts)
    assert refused.value.field == field


@pytest.mark.parametrize("name", ["", "\x00", "x" * 257])
def test_a_type_has_a_name(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_type(name, Limits())
    assert refused.value.field == "type"


def test_attempts_are_counted_as_the_retries_that_they_mean() -> None:
    said = {"defaults": {"max_attempts": 3}, "limits": {"max_attempts": 1}}
    policy = count_retries(msgspec.convert(said, TypePolicy))
    assert (policy.defaults.max_retries_failure, policy.limits.max_retries_failure) == (2, 0)
    assert (policy.defaults.max_attempts, policy.limits.max_attempts) == (None, None)


@pytest.mark.parametrize("part", ["defaults", "limits"])
@pytest.mark.parametrize(
    "said", [{"max_attempts": 0}, {"max_attempts": 2, "max_retries_failure": 1}]
)
def test_attempts_that_mean_nothing_are_refused_by_their_field(
    part: str, said: dict[str, int]
) -> None:
    with pytest.raises(Invalid) as refused:
        count_retries(msgspec.convert({part: said}, TypePolicy))
    assert refused.value.field == f"{part}.max_attempts"
