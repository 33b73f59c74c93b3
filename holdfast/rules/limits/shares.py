"""Check a rule of shares before it is stored."""

import math
from typing import cast

from holdfast.errors import Invalid, TooLarge
from holdfast.model.limits.shares import PLACED, SHARE_BY, ShareBy, ShareRule
from holdfast.rules.submitting.submission import check_queue, check_text

WEIGHTS_MAX = 10_000
WEIGHT_MIN = 0.001
WEIGHT_MAX = 1_000_000.0
AGE_STEP_MIN = 1.0
AGE_STEP_MAX = 30 * 86400.0
AGE_MAX = 1000
VALUE_LENGTH_MAX = 256


def check_share_by(share_by: str) -> ShareBy:
    """Refuse what nothing is shared by."""
    if share_by not in SHARE_BY:
        raise Invalid("by", f"is {share_by!r}; give one of {', '.join(SHARE_BY)}")
    return cast(ShareBy, share_by)


def check_share_queue(queue: str) -> None:
    """Refuse what no queue can be called; placed work has none."""
    if queue != PLACED:
        check_queue(queue)


def check_share_rule(queue: str, rule: ShareRule) -> None:
    """Refuse what cannot be meant, by the name of its field."""
    check_share_queue(queue)
    check_share_by(rule.share_by)
    if len(rule.weights) > WEIGHTS_MAX:
        raise TooLarge("weights", len(rule.weights), WEIGHTS_MAX, unit="entries")
    if rule.weights and rule.share_by == "nothing":
        raise Invalid("weights", "need something to share by; share by owner or key")
    for value, weight in rule.weights.items():
        check_text("weights", value, VALUE_LENGTH_MAX)
        if not WEIGHT_MIN <= weight <= WEIGHT_MAX:  # nor if it is no number
            problem = f"gives {value!r} {weight:g}; use {WEIGHT_MIN:g} to {WEIGHT_MAX:,.0f}"
            raise Invalid("weights", problem)
    _check_ageing(rule)


def _check_ageing(rule: ShareRule) -> None:
    step, most = rule.age_step_seconds, rule.age_max
    if not 0 <= most <= AGE_MAX:
        raise Invalid("age_max", f"is {most}; use 0 to {AGE_MAX} steps")
    if step is None and most:
        raise Invalid("age_step_seconds", "is missing; say how long a step of age_max takes")
    if step is None:
        if rule.share_by == "nothing":
            raise Invalid(
                "by", "is nothing, and nothing ages; share by owner or key, or set an age"
            )
        return
    if not most:
        raise Invalid("age_max", "is missing; say how many steps a task may gain")
    if not math.isfinite(step) or not AGE_STEP_MIN <= step <= AGE_STEP_MAX:
        problem = f"is {step:g}; use {AGE_STEP_MIN:.0f} to {AGE_STEP_MAX:.0f} seconds"
        raise Invalid("age_step_seconds", problem)
