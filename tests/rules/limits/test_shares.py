"""Checking a rule of shares."""

from typing import Any

import pytest

from holdfast.errors import HoldfastError, Invalid, TooLarge
from holdfast.model.limits.shares import PLACED, ShareRule
from holdfast.rules.limits.shares import check_share_by, check_share_queue, check_share_rule


def test_what_is_possible_is_taken() -> None:
    check_share_rule("q", ShareRule())
    check_share_rule(PLACED, ShareRule("key", {"": 0.001, "a/b": 1e6}))
    check_share_rule("q", ShareRule("nothing", age_step_seconds=1.0, age_max=1000))
    assert check_share_by("owner") == "owner"


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("by", {"share_by": "team"}),
        ("by", {"share_by": "nothing"}),
        ("weights", {"weights": {"ann": 0.0}}),
        ("weights", {"weights": {"ann": -1.0}}),
        ("weights", {"weights": {"ann": float("nan")}}),
        ("weights", {"weights": {"ann": float("inf")}}),
        ("weights", {"weights": {"a\x00": 1.0}}),
        ("weights", {"share_by": "nothing", "weights": {"ann": 2.0}, "age_max": 1}),
        ("age_max", {"age_max": -1}),
        ("age_max", {"age_max": 1001, "age_step_seconds": 60.0}),
        ("age_max", {"age_step_seconds": 60.0}),
        ("age_step_seconds", {"age_max": 3}),
        ("age_step_seconds", {"age_max": 3, "age_step_seconds": 0.5}),
        ("age_step_seconds", {"age_max": 3, "age_step_seconds": float("nan")}),
    ],
)
def test_what_is_impossible_is_refused_by_its_field(field: str, rule: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        check_share_rule("q", ShareRule(**rule))
    assert refused.value.field == field


@pytest.mark.parametrize("rule", [ShareRule(weights={str(n): 1.0 for n in range(10_001)})])
def test_weights_are_bounded(rule: ShareRule) -> None:
    with pytest.raises(TooLarge):
        check_share_rule("q", rule)


def test_a_queue_has_a_name_that_queues_can_have() -> None:
    check_share_queue("team/gpu")
    check_share_queue(PLACED)
    with pytest.raises(HoldfastError):
        check_share_queue("a\x00")
