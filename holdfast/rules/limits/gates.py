"""Why a task waits for a limit: which, who holds its slots, and when its turn comes."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdfast.model.limits.usage_limits import CONCURRENCY, UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.rules.limits.usage import BucketState, expect_turn
from holdfast.rules.placement.reason import Reason

# How many ahead are counted.
AHEAD_MAX = 1000


class Gate(NamedTuple):
    """A limit in the way of a task, by the bucket that it asks; some of those who hold its slots.

    `ahead` of it stand so many tasks, which want `ahead_slots`; None where that was not counted.
    """

    name: str
    limit: UsageLimit
    bucket_id: int | None
    value: str
    state: BucketState
    slots: int = 1
    ahead: int | None = None
    ahead_slots: int = 0
    holders: tuple[TaskId, ...] = ()


def explain_gate(gate: Gate, now: datetime) -> Reason:
    """Say what a task waits for that a limit holds back."""
    limit, state = gate.limit, gate.state
    expected_at = None
    if gate.ahead is not None and gate.ahead < AHEAD_MAX:
        expected_at = expect_turn(limit, state, wanted=gate.ahead_slots + gate.slots, now=now)
    details: dict[str, Any] = {
        "limit": gate.name,
        "scope": limit.scope,
        "value": gate.value,
        "slots": gate.slots,
        "most": limit.most,
        "held": state.held,
        "holders": [str(holder) for holder in gate.holders],
        "ahead": gate.ahead,
        "expected_at_ms": None if expected_at is None else round(expected_at.timestamp() * 1000),
    }
    message = _describe(gate, expected_at)
    if gate.ahead is not None:
        message += f"; {gate.ahead}{' or more' if gate.ahead >= AHEAD_MAX else ''} ahead"
    return Reason("limit", message, details)


def _describe(gate: Gate, expected_at: datetime | None) -> str:
    limit = gate.limit
    name = f"limit {gate.name} of {limit.scope} {gate.value}"
    most = limit.most if limit.burst is None else limit.burst
    if limit.most <= 0.0:
        return f"{name} lets nothing start"
    if gate.slots > most:
        return f"asks for {gate.slots} of {name}, which gives {most:g} at once: raise it"
    if limit.kind == CONCURRENCY:
        text = f"{name} has too few free slots: {gate.state.held} of {limit.most:g} are held"
        return text + _name_holders(gate)
    text = f"{name} lets {limit.most:g} start in {limit.period:g} s"
    if expected_at is not None:
        moment = expected_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text += f"; the turn is expected at {moment}"
    return text


def _name_holders(gate: Gate) -> str:
    if not gate.holders:
        return ""
    return f", by {' and '.join(map(str, gate.holders))}" + (
        " among others" if gate.state.held > len(gate.holders) else ""
    )
