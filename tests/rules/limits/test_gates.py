"""What is said of a limit in the way: its name, who holds it, and when the turn comes."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.rules.limits.gates import AHEAD_MAX, Gate, explain_gate
from holdfast.rules.limits.usage import BucketState

NOW = datetime(2027, 1, 1, tzinfo=UTC)
SLOTS = UsageLimit(scope="queue", kind="concurrency", most=5)
RATE = UsageLimit(scope="key", kind="bucket", most=6, period=60, burst=2)
WINDOW = UsageLimit(scope="owner", kind="window", most=10, period=60)
HELD = Gate(
    "mail", SLOTS, 1, "q", BucketState(held=5), ahead=7, holders=(TaskId(12, 0), TaskId(13, 0))
)
EMPTY = BucketState(tokens=0.0, filled_at=NOW)
FULL = BucketState(spent=10.0, oldest=NOW - timedelta(seconds=40))


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (
            HELD,
            "limit mail of queue q has too few free slots: 5 of 5 are held, by 12.0 and 13.0 among "
            "others; 7 ahead",
        ),
        (
            HELD._replace(state=BucketState(held=2), slots=4, ahead=None),
            "limit mail of queue q has too few free slots: 2 of 5 are held, by 12.0 and 13.0",
        ),
        (
            HELD._replace(slots=6, ahead=None),
            "asks for 6 of limit mail of queue q, which gives 5 at once: raise it",
        ),
        (
            Gate("closed", UsageLimit(scope="type", kind="concurrency", most=0), 1, "t", EMPTY),
            "limit closed of type t lets nothing start",
        ),
        (
            Gate("vendor", RATE, 1, "acme", EMPTY, ahead=2, ahead_slots=2),
            "limit vendor of key acme lets 6 start in 60 s; the turn is expected at "
            "2027-01-01T00:00:30Z; 2 ahead",
        ),
        (
            Gate("vendor", RATE, 1, "acme", EMPTY),
            "limit vendor of key acme lets 6 start in 60 s",
        ),
        (
            Gate("vendor", RATE, 1, "acme", EMPTY, ahead=AHEAD_MAX, ahead_slots=AHEAD_MAX),
            "limit vendor of key acme lets 6 start in 60 s; 1000 or more ahead",
        ),
        (
            Gate("daily", WINDOW, 1, "ann", FULL, ahead=0),
            "limit daily of owner ann lets 10 start in 60 s; the turn is expected at "
            "2027-01-01T00:00:20Z; 0 ahead",
        ),
        (
            Gate("daily", WINDOW, 1, "ann", FULL, ahead=10, ahead_slots=10),
            "limit daily of owner ann lets 10 start in 60 s; the turn is expected at "
            "2027-01-01T00:01:21Z; 10 ahead",
        ),
    ],
)
def test_a_limit_says_what_is_waited_for(gate: Gate, message: str) -> None:
    reason = explain_gate(gate, NOW)
    assert (reason.code, reason.message) == ("limit", message)


def test_programs_get_the_numbers() -> None:
    details = explain_gate(HELD, NOW).details
    assert details == {
        "limit": "mail",
        "scope": "queue",
        "value": "q",
        "slots": 1,
        "most": 5.0,
        "held": 5,
        "holders": ["12.0", "13.0"],
        "ahead": 7,
        "expected_at_ms": None,
    }
    rate = Gate("vendor", RATE, 1, "acme", EMPTY, ahead=0)
    assert explain_gate(rate, NOW).details["expected_at_ms"] == (NOW.timestamp() + 10) * 1000
