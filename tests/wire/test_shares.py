"""Where rules of shares are looked up."""

from holdfast.wire.shares import PLACED_PATH, rule_path


def test_the_rule_of_a_queue_stands_under_its_name() -> None:
    assert rule_path("team/mail:eu") == "/api/shares/queues/team/mail:eu"
    assert rule_path("a?b") == "/api/shares/queues/a%3Fb"
    assert rule_path(None) == PLACED_PATH
