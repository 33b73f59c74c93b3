"""Outages: what a gap between two passes of the reaper means for the leases that ran out in it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.rules.outage import GAP_MAX, WAIT, Watch, is_free, is_waiting, next_watch

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def watch_after(*passes: float) -> Watch:
    watch = Watch(at(0))
    for seconds in passes:
        watch = next_watch(watch, at(seconds))
    return watch


@pytest.mark.parametrize("gap", [0, 1, 9.999, 10])
def test_a_gap_of_up_to_ten_seconds_is_no_outage(gap: float) -> None:
    assert watch_after(gap) == Watch(at(gap), None, None)


@pytest.mark.parametrize("gap", [10.001, 11, 3600])
def test_a_longer_gap_is_an_outage_from_the_last_pass_to_the_end_of_the_wait(gap: float) -> None:
    assert watch_after(gap) == Watch(at(gap), at(0), at(gap + 30))


def test_the_reaper_waits_thirty_seconds_after_an_outage() -> None:
    watch = watch_after(100)
    assert is_waiting(watch, at(100))
    assert is_waiting(watch, at(129.999))
    assert not is_waiting(watch, at(130))


def test_without_an_outage_nobody_waits_and_nothing_is_free() -> None:
    watch = watch_after(5, 10)
    assert not is_waiting(watch, at(10))
    assert not is_free(watch, at(7))


@pytest.mark.parametrize(
    ("expires_at", "free"),
    [(-0.001, False), (0, True), (50, True), (129, True), (130, True), (130.001, False)],
)
def test_leases_that_ran_out_during_gap_or_wait_are_free(expires_at: float, free: bool) -> None:
    assert is_free(watch_after(100), at(expires_at)) == free


def test_ordinary_passes_keep_the_outage_in_mind() -> None:
    watch = watch_after(100, 105, 110, 115, 120, 125, 130, 135)
    assert (watch.outage_from, watch.outage_until) == (at(0), at(130))
    assert is_free(watch, at(60))


def test_a_second_gap_during_the_wait_lengthens_the_outage() -> None:
    watch = watch_after(100, 120)
    assert watch == Watch(at(120), at(0), at(150))


def test_a_second_gap_after_the_wait_is_an_outage_of_its_own() -> None:
    watch = watch_after(100, 110, 120, 130, 200)
    assert watch == Watch(at(200), at(130), at(230))


def test_a_clock_that_was_set_back_does_not_move_the_last_pass_back() -> None:
    assert watch_after(8, 3).last_pass_at == at(8)


@given(some.lists(some.floats(min_value=0, max_value=100), min_size=1, max_size=30))
def test_every_lease_that_ran_out_in_a_gap_is_free_at_the_next_pass(gaps: list[float]) -> None:
    watch, now = Watch(START), START
    for gap in gaps:
        last, now = now, now + timedelta(seconds=gap)
        watch = next_watch(watch, now)
        if now - last > GAP_MAX:
            assert is_free(watch, last + (now - last) / 2)
            assert is_free(watch, now + WAIT)
            assert is_waiting(watch, now)
        assert watch.last_pass_at == now
