"""The end of a worker: what it began ends with it, is told, or is handed back."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.errors import Invalid
from holdfast.operations.register import Registration, register
from holdfast.worker.claimed import lease_keeper as keeper_module
from holdfast.worker.claimed import worker as worker_module
from holdfast.worker.claimed.claims import Replaced
from holdfast.worker.watchdog_handle import WatchdogLost
from tests.audits import assert_audit_is_silent
from tests.supervision import MARK_NAME
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.living import await_process
from tests.worker.workplace import Workplace, call

SLEEPER = "echo $$ > {folder}/pid.partial; mv {folder}/pid.partial {folder}/pid; exec sleep 600"


async def leases(workplace: Workplace) -> list[Any]:
    return await workplace.fetch("select * from holdfast.leases")


async def assert_handed_back(workplace: Workplace, task_id: str) -> None:
    """See that a task waits for its next attempt, and has not paid for the last.

    The worker's last request may have been given it once more, before it could be taken back.
    """
    [task] = await workplace.about("tasks", task_id)
    attempts = await workplace.attempts(task_id)
    assert {(tried["state"], tried["error"]) for tried in attempts} == {(7, "handed back")}
    assert (task["state"], task["preemption_count"], task["attempt"]) == (1, 0, len(attempts))
    assert not await workplace.about("leases", task_id)


async def test_an_idle_worker_leaves_at_once(workplace: Workplace) -> None:
    worker, running = workplace.hire(drain_seconds=600.0)
    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
    worker.drain()
    await asyncio.wait_for(running, 30)


async def test_a_drained_worker_finishes_what_runs_and_takes_nothing_more(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    later = await workplace.submit(call("add", 1))
    worker, running = workplace.hire(drain_seconds=600.0, concurrency=1)
    await eventually((tmp_path / "began").exists)
    worker.drain()
    (tmp_path / "go").touch()
    await asyncio.wait_for(running, 30)
    assert await workplace.state(task_id) == "SUCCEEDED"
    assert not await workplace.attempts(later)
    assert await workplace.state(later) == "PENDING"


@pytest.mark.parametrize("again", [False, True])
async def test_what_takes_too_long_is_stopped_and_handed_back(
    workplace: Workplace, tmp_path: Path, again: bool
) -> None:
    in_loop = await workplace.submit(call("await_file", f"{tmp_path}/one", f"{tmp_path}/go"))
    in_thread = await workplace.submit(call("wait_for_file", f"{tmp_path}/two", f"{tmp_path}/go"))
    command = await workplace.submit({"shell": SLEEPER.format(folder=tmp_path)})
    worker, running = workplace.hire(drain_seconds=600.0 if again else 0.05)
    for name in ("one", "two", "pid"):
        await eventually((tmp_path / name).exists)
    sleeper = await_process(tmp_path / "pid")
    worker.drain()
    if again:
        worker.drain()
    await asyncio.wait_for(running, 60)
    assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE
    for task_id in (in_loop, in_thread, command):
        await assert_handed_back(workplace, task_id)


async def test_claims_that_a_drain_meets_on_their_way_are_handed_back(
    workplace: Workplace, database: Any
) -> None:
    async with FaultyProxy(workplace.url) as proxy:
        worker, running = workplace.hire(server=proxy.url)
        await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
        proxy.lose_answers()
        task_id = await workplace.submit(call("add", 1), [1, 2, 3])
        await eventually(lambda: leases(workplace))
        worker.drain()
        proxy.mend()
        await asyncio.wait_for(running, 60)
    assert not await leases(workplace)
    await assert_handed_back(workplace, task_id)
    await assert_audit_is_silent(database)


async def test_no_claim_is_lost_whenever_the_drain_comes(
    workplace: Workplace, database: Any
) -> None:
    await workplace.submit(call("add", 1), list(range(400)))
    for turn in range(8):
        worker, running = workplace.hire(concurrency=5)
        query = f"select 1 from holdfast.jobs where succeeded >= {turn * 20 + 5}"
        await eventually(partial(workplace.fetch, query))
        worker.drain()
        await asyncio.wait_for(running, 60)
        assert not await leases(workplace)
    await assert_audit_is_silent(database)


async def test_the_end_of_a_task_is_told_even_if_the_server_is_away_during_the_drain(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "STOP_SECONDS_MAX", 0.05)
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    async with FaultyProxy(workplace.url) as proxy:
        worker, running = workplace.hire(server=proxy.url, drain_seconds=60.0)
        await eventually((tmp_path / "began").exists)
        await proxy.cut()
        worker.drain()
        (tmp_path / "go").touch()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 0.5)
        proxy.mend()
        await asyncio.wait_for(running, 60)
    assert await workplace.state(task_id) == "SUCCEEDED"


async def test_a_worker_whose_run_is_cancelled_hands_everything_back(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    _, running = workplace.hire(drain_seconds=600.0)
    await eventually((tmp_path / "began").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await assert_handed_back(workplace, task_id)


async def test_attempts_that_have_not_taken_a_step_are_handed_back_too(
    workplace: Workplace,
) -> None:
    await workplace.submit(call("add", 1), list(range(50)))
    worker, running = workplace.hire(concurrency=50)

    async def begin_and_stop() -> bool:
        # Nothing of ours runs between the look and the drain.
        if not await leases(workplace):
            return False
        worker.drain()
        worker.drain()
        return True

    await eventually(begin_and_stop)
    await asyncio.wait_for(running, 60)
    assert not await leases(workplace)


def watchdogs() -> list[psutil.Process]:
    """List the watchdogs of the workers in this process."""
    return [child for child in psutil.Process().children() if is_watchdog(child)]


def is_watchdog(process: psutil.Process) -> bool:
    """Tell whether a process lives and is a worker's watchdog, not that of the test run."""
    with suppress(psutil.NoSuchProcess):  # as it also says of a zombie
        words = process.cmdline()
        is_of_tests = any(word.startswith(MARK_NAME) for word in words)
        return not is_of_tests and any("watchdog.py" in word for word in words)
    return False


async def test_a_worker_whose_watchdog_dies_stops_everything_and_says_so(
    workplace: Workplace, tmp_path: Path
) -> None:
    in_loop = await workplace.submit(call("await_file", f"{tmp_path}/one", f"{tmp_path}/go"))
    command = await workplace.submit({"shell": SLEEPER.format(folder=tmp_path)})
    _, running = workplace.hire(drain_seconds=600.0)
    await eventually((tmp_path / "one").exists)
    await eventually((tmp_path / "pid").exists)
    sleeper = await_process(tmp_path / "pid")
    [watchdog] = watchdogs()
    os.kill(watchdog.pid, signal.SIGKILL)
    with pytest.raises(WatchdogLost):
        await asyncio.wait_for(running, 60)
    assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE
    await assert_handed_back(workplace, in_loop)
    await assert_handed_back(workplace, command)


async def test_a_worker_that_meets_the_death_of_its_watchdog_says_so(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "TICK_SECONDS", 600.0)  # so it is not the keeper who sees it
    _, running = workplace.hire()
    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
    [watchdog] = watchdogs()
    os.kill(watchdog.pid, signal.SIGKILL)
    await eventually(lambda: watchdog.status() == psutil.STATUS_ZOMBIE)
    task_id = await workplace.submit({"shell": "true"})
    with pytest.raises(WatchdogLost):
        await asyncio.wait_for(running, 60)
    [task] = await workplace.about("tasks", task_id)
    assert (task["state"], task["preemption_count"]) == (1, 0)
    # The claim that waits this moment may get it once more, and hand it back as well.
    errors = {attempt["error"] for attempt in await workplace.attempts(task_id)}
    assert errors == {"handed back"}


async def test_a_worker_that_was_replaced_stops_everything_and_says_so(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    worker, running = workplace.hire(drain_seconds=600.0)
    await eventually((tmp_path / "began").exists)
    [row] = await workplace.fetch("select * from holdfast.workers")
    successor = Registration(
        *("successor", "w", row["host"], ("q",), worker.worker_id),
        replaces_secret=worker.credential.secret,
    )
    assert (await register(workplace.server.runtime.ledger, successor)).taken_over == 1
    await workplace.submit(call("add", 1))  # the claim of it is answered so
    with pytest.raises(Replaced):
        await asyncio.wait_for(running, 60)
    [attempt] = await workplace.attempts(task_id)
    assert attempt["error"] == "worker replaced after it was gone"


async def test_a_worker_that_asks_for_the_impossible_says_so(workplace: Workplace) -> None:
    _, running = workplace.hire(queues=("",))
    with pytest.raises(Invalid, match="queue"):
        await asyncio.wait_for(running, 60)


async def test_a_worker_waits_for_its_server_before_it_registers(workplace: Workplace) -> None:
    async with FaultyProxy(workplace.url) as proxy:
        await proxy.cut()
        worker, running = workplace.hire(server=proxy.url)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 0.3)
        proxy.mend()
        await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
        worker.drain()
        await asyncio.wait_for(running, 60)


async def test_nothing_of_a_worker_is_left(workplace: Workplace, tmp_path: Path) -> None:
    before = set(threading.enumerate())  # other tests' clients may keep theirs

    def own_threads() -> set[str]:
        added = set(threading.enumerate()) - before
        return {thread.name for thread in added if thread.name.startswith("holdfast-")}

    worker, running = workplace.hire()
    await workplace.reach(await workplace.submit(call("remember", 1)), "DEAD_LETTERED")
    assert "holdfast-keeper" in own_threads()
    await workplace.reach(await workplace.submit({"shell": "true"}), "SUCCEEDED")
    worker.drain()
    await asyncio.wait_for(running, 60)
    await eventually(lambda: not own_threads())  # idle threads of the pool go by themselves
    assert not watchdogs()
    assert not list((tmp_path / "slot-0" / "attempts").glob("*"))
