"""What became of the tasks of a type."""

from holdfast.model.submitting.policies import PolicyDefaults, TypePolicy
from tests.simulation.small_plans import COMMAND, once, placed, play, work


def test_a_policy_decides_how_often_is_tried_again() -> None:
    policies = {"work": TypePolicy(PolicyDefaults(max_attempts=3, on_exhausted="dead_letter"))}
    failing = work(COMMAND, 10, fails=1.0)
    report = play(fleet=[placed()], schedules=[once("s", failing)], policies=policies)
    fates = report.by_type["work"]
    assert (fates.retries, fates.dead_lettered) == (2, 1)
    assert report.dead_letters == {"exhausted_retries": 1}
    without = play(fleet=[placed()], schedules=[once("s", failing)])
    assert (without.by_type["work"].retries, without.by_type["work"].failed) == (0, 1)
