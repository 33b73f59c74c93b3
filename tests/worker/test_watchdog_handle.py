"""The worker's handle on its watchdog."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from holdfast.errors import Invalid
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.slots import Slot, take_slot
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost
from tests.embedded.users import wait_for
from tests.worker.living import a_token, lives, start_sleeper

FAR = boot_clock() + 36_000
ONE, TWO, MARK = a_token(), a_token(), a_token()


def test_a_watched_group_is_killed_at_its_deadline(watchdog: WatchdogHandle) -> None:
    overdue, renewed = start_sleeper(ONE), start_sleeper(TWO)
    watchdog.watch_group(renewed.pid, TWO, FAR)
    watchdog.watch_group(overdue.pid, ONE, boot_clock())
    assert overdue.wait(60) == -signal.SIGKILL
    assert lives(renewed)
    watchdog.watch_group(renewed.pid, TWO, boot_clock())
    assert renewed.wait(60) == -signal.SIGKILL


def test_stopping_ends_what_is_watched_and_not_forgotten(slot: Slot) -> None:
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    watched, forgotten = start_sleeper(ONE), start_sleeper(TWO)
    watchdog.watch_group(watched.pid, ONE, FAR)
    watchdog.watch_group(forgotten.pid, TWO, FAR)
    watchdog.forget_group(forgotten.pid)
    assert watchdog.is_alive()
    watchdog.stop()
    assert not watchdog.is_alive()
    assert watched.wait(60) == -signal.SIGKILL
    assert lives(forgotten)
    forgotten.kill()
    forgotten.wait(30)


def test_a_worker_without_a_deadline_lives(watchdog: WatchdogHandle) -> None:
    watchdog.set_own_deadline(FAR)
    watchdog.set_own_deadline(None)
    overdue = start_sleeper(ONE)
    watchdog.watch_group(overdue.pid, ONE, boot_clock())
    overdue.wait(60)
    assert watchdog.is_alive()


def test_the_watchdog_keeps_the_slot_until_it_has_ended(tmp_path: Path) -> None:
    slot = take_slot(tmp_path)
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    slot.close()
    other = take_slot(tmp_path)
    assert other.number == 1
    other.close()
    watchdog.stop()
    again = take_slot(tmp_path)
    assert again.number == 0
    again.close()


def test_a_dead_watchdog_is_noticed(slot: Slot) -> None:
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    os.kill(watchdog.pid, signal.SIGKILL)
    wait_for(lambda: not watchdog.is_alive())
    with pytest.raises(WatchdogLost, match="has died"):
        watchdog.set_own_deadline(None)
    with pytest.raises(WatchdogLost, match="has died"):
        watchdog.watch_group(os.getpid(), ONE, FAR)
    watchdog.stop()


def test_nothing_is_watched_before_the_start_or_after_the_stop(slot: Slot) -> None:
    watchdog = WatchdogHandle()
    assert not watchdog.is_alive()
    with pytest.raises(WatchdogLost, match="is not running"):
        watchdog.set_own_deadline(None)
    watchdog.start(slot.fd)
    watchdog.stop()
    watchdog.stop()
    with pytest.raises(WatchdogLost, match="is not running"):
        watchdog.forget_group(2)


def test_bad_values_are_refused_and_change_nothing(watchdog: WatchdogHandle) -> None:
    sleeper = start_sleeper(ONE)
    for mark in ("", "two words", "one\nforget", "ö", "x" * 129):
        with pytest.raises(Invalid, match="mark"):
            watchdog.watch_group(sleeper.pid, mark, 0)
    for deadline in (float("inf"), float("nan")):
        with pytest.raises(Invalid, match="deadline"):
            watchdog.watch_group(sleeper.pid, ONE, deadline)
    with pytest.raises(Invalid, match="deadline"):
        watchdog.set_own_deadline(float("inf"))
    assert watchdog.is_alive()
    assert lives(sleeper)
    sleeper.kill()
    sleeper.wait(30)


@pytest.mark.parametrize("pgid", [1, 0, -1])
def test_a_group_that_would_mean_every_process_is_refused(pgid: int) -> None:
    # Never started on purpose: should the check be lost, no watchdog must hear of such a group.
    with pytest.raises(Invalid, match="pgid"):
        WatchdogHandle().watch_group(pgid, ONE, FAR)


def test_a_mark_that_tasks_could_carry_by_chance_is_refused(slot: Slot) -> None:
    with pytest.raises(Invalid, match="mark"):
        WatchdogHandle().start(slot.fd, mark="PATH=/bin")


def test_a_process_that_carries_the_workers_mark_ends_with_it(slot: Slot) -> None:
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd, mark=f"HOLDFAST_WORKER={MARK}")
    environment = {**os.environ, "HOLDFAST_WORKER": MARK}
    with subprocess.Popen(["sleep", "600"], env=environment) as marked:
        watchdog.stop()
        assert marked.wait(60) == -signal.SIGKILL


def test_a_watchdog_carries_no_token_of_a_task_that_its_worker_runs_in(
    slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE_TOKEN", "outer")
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    assert "HOLDFAST_LEASE_TOKEN" not in psutil.Process(watchdog.pid).environ()
    watchdog.stop()
