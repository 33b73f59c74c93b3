"""What a rule of shares says unless it says otherwise."""

from holdfast.model.limits.shares import SHARE_BY, ShareRule


def test_a_rule_shares_by_owner_and_nothing_ages() -> None:
    rule = ShareRule()
    assert (rule.share_by, dict(rule.weights), rule.age_step_seconds, rule.age_max) == (
        "owner", {}, None, 0
    )  # fmt: skip
    assert rule.share_by in SHARE_BY
