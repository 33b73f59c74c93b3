"""The overview as it goes over the wire."""

from typing import Any

import msgspec
import pytest

from holdfast.wire.overview import OverviewQuery, Series

COUNTS = (
    "submitted", "succeeded", "failed", "worker_failed", "killed", "dead_lettered", "retried",
    "depth", "running", "wait_p50_ms", "wait_p95_ms",
)  # fmt: skip


def test_what_is_not_known_is_null_and_not_zero() -> None:
    values: dict[str, Any] = {name: [None, 0] for name in COUNTS}
    series = Series(at_ms=[0, 10_000], **values)
    sent = msgspec.json.encode(series)
    assert msgspec.json.decode(sent)["depth"] == [None, 0]
    assert msgspec.json.decode(sent, type=Series) == series


@pytest.mark.parametrize(("seconds", "fits"), [(600, True), (599, False), (604_801, False)])
def test_a_window_is_from_ten_minutes_to_a_week(seconds: int, fits: bool) -> None:
    try:
        found = msgspec.convert({"window_seconds": seconds}, OverviewQuery)
    except msgspec.ValidationError:
        assert not fits
    else:
        assert fits
        assert found.window_seconds == seconds


def test_an_hour_is_shown_unless_another_window_is_asked_for() -> None:
    assert OverviewQuery().window_seconds == 3600
