"""Limits of use: what is refused, and what is left of a bucket."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.rules.limits.usage import (
    Room,
    check_change,
    check_held,
    check_limit_name,
    complete_limit,
    find_left,
    find_slots,
    find_tokens,
)

NOW = datetime(2027, 1, 1, tzinfo=UTC)
RATE = UsageLimit(scope="key", kind="bucket", most=100, period=60, burst=5)


def slots(most: float = 5, **fields: Any) -> UsageLimit:
    said: dict[str, Any] = {"scope": "queue", "kind": "concurrency", "most": most}
    return UsageLimit(**(said | fields))


def test_a_token_bucket_holds_a_seconds_worth_and_at_least_one() -> None:
    assert complete_limit(msgspec.structs.replace(RATE, burst=None)).burst == pytest.approx(
        100 / 60
    )
    slow = UsageLimit(scope="key", kind="bucket", most=1, period=3600)
    assert complete_limit(slow).burst == 1.0
    assert complete_limit(RATE) == RATE
    assert complete_limit(slots(0)) == slots(0)


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (slots(scope="person"), "scope: 'person' is unknown; use one of queue, type, owner"),
        (slots(kind="leaky"), "kind: 'leaky' is unknown; use one of concurrency"),
        (slots(-1), "most: is -1; give 0 to"),
        (slots(1.5), "most: is 1.5; slots are whole"),
        (slots(float("nan")), "most: is nan"),
        (slots(period=60.0), "period: goes with a rate; use kind 'bucket' or 'window'"),
        (slots(burst=1.0), "burst: goes with a rate"),
        (slots(kind="bucket"), "period: is missing: 5 in how many seconds"),
        (slots(kind="bucket", period=0.0), "period: is 0; give 0.001"),
        (slots(kind="bucket", period=1.0, burst=0.5), "burst: is 0.5; give 1 to"),
        (slots(kind="window", period=1.0, burst=2.0), "burst: goes with a token bucket"),
        (slots(only_for=""), "only_for: is empty; leave it out"),
        (slots(only_for="a\0"), "only_for: "),
        (slots(in_queue="q"), "in_queue: says again what scope 'queue' is about; use only_for"),
        (slots(scope="type", in_type="t"), "in_type: says again"),
        (slots(scope="type", in_queue="a b"), "queue: 'a b'"),
        (slots(scope="name", in_type="t"), "in_type: goes with tasks; a limit of scope 'name'"),
    ],
)
def test_a_limit_that_cannot_be_right_is_refused(limit: UsageLimit, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        complete_limit(limit)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "x" * 129])
def test_names_are_short_words(name: str) -> None:
    with pytest.raises(Invalid, match=r"name: .* is none; use letters"):
        check_limit_name(name)
    check_limit_name("stripe.eu_1")


def test_scope_and_kind_of_a_limit_stay() -> None:
    check_change(slots(5), slots(0, only_for="q"))
    for after, field in ((slots(scope="type"), "scope"), (slots(kind="bucket"), "kind")):
        with pytest.raises(Invalid, match=rf"{field}: is .*, and stays so; delete the limit first"):
            check_change(slots(), after)


def test_a_task_can_hold_slots_of_four_limits_and_no_more() -> None:
    four = [slots(), slots(scope="type"), slots(scope="owner"), slots(scope="key")]
    check_held(four[3], four[:3])
    with pytest.raises(Invalid, match=r"limits: could be the 5th limit of slots .* only_for"):
        check_held(slots(in_type="t"), four)
    # Rates hold nothing, whatever there is, and code that asks by a name is no task in line.
    check_held(slots(kind="bucket", period=1.0), four)
    check_held(slots(scope="key"), [RATE] * 9)


def test_limits_of_different_queues_never_meet() -> None:
    of_queues = [slots(only_for=f"q{number}") for number in range(50)]
    check_held(slots(only_for="q"), of_queues)
    check_held(slots(scope="type"), of_queues)
    with pytest.raises(Invalid, match="5th"):
        check_held(slots(only_for="q0"), [slots(only_for="q0") for _ in range(4)])


def test_free_slots_are_never_fewer_than_none() -> None:
    assert find_slots(slots(5), 3) == Room(2)
    assert find_slots(slots(5), 8) == Room(0)


def test_a_token_bucket_fills_up_to_its_burst() -> None:
    assert find_tokens(RATE, None, None, now=NOW) == Room(5)
    a_minute_ago = NOW - timedelta(minutes=1)
    assert find_tokens(RATE, 0.0, a_minute_ago, now=NOW) == Room(5)
    assert find_tokens(RATE, 0.0, NOW - timedelta(seconds=1.2), now=NOW).free == pytest.approx(2)
    room = find_tokens(RATE, 0.5, NOW, now=NOW)
    assert room == Room(0.5, NOW + timedelta(seconds=0.3))
    assert find_tokens(RATE, 0.5, NOW, now=NOW, wanted=6.0).next_at is None
    stopped = UsageLimit(scope="key", kind="bucket", most=0, period=1, burst=1)
    assert find_tokens(stopped, 0.0, a_minute_ago, now=NOW) == Room(0)


def test_a_window_has_room_again_when_the_oldest_leaves_it() -> None:
    window = UsageLimit(scope="key", kind="window", most=10, period=60)
    assert find_left(window, 3, NOW) == Room(7)
    assert find_left(window, 0, None) == Room(10)
    oldest = NOW - timedelta(seconds=50)
    assert find_left(window, 10, oldest) == Room(0, NOW + timedelta(seconds=10.6))
