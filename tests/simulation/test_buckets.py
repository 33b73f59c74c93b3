"""Limits hold back, and it is told for how long."""

from datetime import timedelta

import pytest

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.spec import Entrypoint, JobSpec
from holdfast.simulation.buckets import Buckets
from tests.simulation.small_plans import COMMAND, MAIL, START, once, placed, play, work


def test_a_limit_holds_back_and_the_report_says_for_how_long() -> None:
    limit = UsageLimit(scope="owner", kind="concurrency", most=1)
    report = play(
        fleet=[placed(4)],
        schedules=[once("s", work(COMMAND, 3600, tasks=3))],
        limits={"one-each": limit},
    )
    # Of three tasks two wait for an hour, and then one for another.
    held = report.limits["one-each"]
    assert held.task_hours == pytest.approx(3.0, abs=0.01)
    assert held.most_at_once == 2
    assert report.waits_by_owner["anonymous"].longest == pytest.approx(7200.3, abs=0.01)


def test_a_rate_lets_start_what_it_says() -> None:
    limit = UsageLimit(scope="queue", kind="bucket", most=6, period=60, burst=1)
    report = play(
        fleet=[placed(1, queues=("mail",), slots=50)],
        schedules=[once("s", work(MAIL, 1, tasks=20))],
        limits={"six-a-minute": limit},
    )
    assert report.waits_by_type["mail"].longest == pytest.approx(190.1, abs=1.0)


def test_a_window_lets_more_start_when_the_first_have_left_it() -> None:
    buckets = Buckets({"w": UsageLimit(scope="owner", kind="window", most=2, period=100)})
    [key] = buckets.find_keys(JobSpec(Entrypoint(command=["x"]), owner="ann"))
    buckets.take([key], 2, START)
    assert buckets.find_full([key], 1, START + timedelta(seconds=100)) == key
    assert buckets.when_open(key, START) == START + timedelta(seconds=101)
    assert buckets.find_full([key], 1, START + timedelta(seconds=101)) is None


def test_slots_come_back_and_tokens_do_not() -> None:
    slots = UsageLimit(scope="queue", kind="concurrency", most=1, only_for="mail")
    tokens = UsageLimit(scope="queue", kind="bucket", most=1, period=1000, burst=1)
    buckets = Buckets({"slots": slots, "tokens": tokens})
    keys = buckets.find_keys(JobSpec(Entrypoint(function="a:b"), queue="mail"))
    assert [key.limit for key in keys] == ["slots", "tokens"]
    buckets.take(keys, 1, START)
    buckets.give_back(keys, 1)
    assert buckets.find_full(keys, 1, START) == keys[1]
    others = buckets.find_keys(JobSpec(Entrypoint(function="a:b"), queue="others"))
    assert [key.limit for key in others] == ["tokens"]
