"""What runs in a worker, and beside what: suspects in a process, alone, and at their own cost."""

import asyncio
import json
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.operations.register import Registration, register
from holdfast.worker.allowing import Allowed
from holdfast.worker.claimed import attempt as attempt_module
from holdfast.worker.claimed import running_attempts
from holdfast.worker.claimed.running_attempts import ISOLATED_MIN, Changes
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import QUEUE, Workplace, call

QUICK: dict[str, Any] = {"backoff": {"base": 0.0}, "on_exhausted": "fail"}


async def make_suspect(workplace: Workplace) -> None:
    """Lose two workers in a row that have claimed all there is."""
    for turn in range(2):
        await lose_worker(workplace, f"victim-{turn}")


async def lose_worker(workplace: Workplace, victim: str, crash: str | None = None) -> None:
    """Lose a worker that has claimed all there is."""
    ledger = workplace.server.runtime.ledger
    waiting = await workplace.fetch("select 1 from holdfast.tasks where state = 1")

    async def all_claimed() -> bool:
        await workplace.claim(100, victim)
        leases = "select 1 from holdfast.leases where worker_id = $1"
        return len(await workplace.fetch(leases, victim)) == len(waiting)

    await register(ledger, Registration(victim, "v", "here"))
    await eventually(all_claimed)
    heir = Registration(f"{victim}-heir", "h", "here", replaces=victim, crash=crash)
    assert (await register(ledger, heir)).taken_over == len(waiting)


async def test_a_function_in_a_process_is_refused_as_one_within_the_worker(
    workplace: Workplace,
) -> None:
    allowed = Allowed(patterns=("posixpath:[be]*",))
    workplace.hire(isolation="process", allowed=allowed, name="north")
    given = await workplace.submit({"function": "posixpath:basename", "args": ["a/b"]})
    borrowed = await workplace.submit({"function": "posixpath:exists", "args": ["a"]}, **QUICK)
    await workplace.reach(given, "SUCCEEDED")
    refused = await workplace.ended(borrowed)
    assert refused["error_class"] == "RefusedByWorker"
    assert refused["error"].startswith("worker north finds genericpath:exists under")


async def test_commands_of_a_worker_that_crashed_run_beside_each_other_as_before(
    workplace: Workplace, tmp_path: Path
) -> None:
    """They have always had processes of their own: only functions are new to that."""
    count = max(ISOLATED_MIN, os.cpu_count() or 1) + 1
    began = f"touch {tmp_path}/up-$HOLDFAST_TASK_INDEX"
    wait = f"{began}; until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    task_id = await workplace.submit({"shell": wait}, list(range(count)), **QUICK)
    await lose_worker(workplace, "victim", crash="exit code 3")
    workplace.hire(concurrency=count)
    await eventually(lambda: len(list(tmp_path.glob("up-*"))) == count)
    (tmp_path / "go").touch()
    for index in range(count):
        await workplace.reach(f"{task_id.partition('.')[0]}.{index}", "SUCCEEDED")


async def test_functions_that_wait_for_others_leave_these_a_process_to_run_in(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As parents do for their children: the last one lets all of them go on."""
    monkeypatch.setattr(running_attempts, "ISOLATED_MIN", 1)
    monkeypatch.setattr(running_attempts, "ISOLATED_SECONDS_MAX", 0.05)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    began, go = str(tmp_path / "began"), str(tmp_path / "go")
    parent = await workplace.submit(call("wait_for_file", began, go), **QUICK)
    child = await workplace.submit(call("tell", go, "go on"), **QUICK)
    await lose_worker(workplace, "victim", crash="exit code 3")
    workplace.hire(concurrency=2)
    await workplace.reach(child, "SUCCEEDED")
    await workplace.reach(parent, "SUCCEEDED")


async def test_a_suspect_runs_in_a_process_of_its_own(workplace: Workplace) -> None:
    task_id = await workplace.submit(call("report"), **QUICK)
    await make_suspect(workplace)
    workplace.hire()
    task = await workplace.reach(task_id, "SUCCEEDED")
    told_id, attempt, pid, _ = json.loads(task["result"])
    assert (told_id, attempt) == (task_id, 2)
    assert pid != os.getpid()


async def test_a_suspect_that_crashes_has_failed_with_its_signal(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = await workplace.submit(call("crash", signal.SIGKILL), **QUICK)
    await make_suspect(workplace)
    workplace.hire()
    await workplace.reach(task_id, "FAILED")
    attempt = (await workplace.attempts(task_id))[-1]
    assert (attempt["state"], attempt["exit_code"]) == (5, 137)
    assert attempt["error"] == "ended by SIGKILL"
    assert f"task {task_id} " in caplog.text


async def test_a_suspect_runs_alone(workplace: Workplace, tmp_path: Path) -> None:
    suspect = await workplace.submit(
        call("wait_for_file", f"{tmp_path}/began", f"{tmp_path}/go"), **QUICK
    )
    await make_suspect(workplace)
    # Longer than a process takes to start: beside it the suspect could have begun.
    neighbour = await workplace.submit({"shell": "sleep 1.5"}, priority=1)
    workplace.hire(concurrency=5)
    await workplace.reach(suspect, "ASSIGNED")
    await workplace.reach(neighbour, "RUNNING")
    await eventually((tmp_path / "began").exists)
    assert await workplace.state(neighbour) == "SUCCEEDED"
    later = await workplace.submit(call("add", 1))
    assert await workplace.state(later) == "PENDING"
    assert len(await workplace.fetch("select 1 from holdfast.leases")) == 1
    (tmp_path / "go").touch()
    await workplace.reach(suspect, "SUCCEEDED")
    await workplace.reach(later, "SUCCEEDED")


async def test_suspects_that_are_claimed_together_run_one_after_another(
    workplace: Workplace,
) -> None:
    task_id = await workplace.submit(call("add_in_thread", 1), [1, 2, 3], **QUICK)
    await make_suspect(workplace)
    workplace.hire(concurrency=5)
    job_id = task_id.partition(".")[0]
    ids = [f"{job_id}.{index}" for index in range(3)]
    for one in ids:
        await workplace.reach(one, "SUCCEEDED")
    runs = [(await workplace.attempts(one))[-1] for one in ids]
    started = sorted(runs, key=lambda row: row["started_at"])
    for one, other in pairwise(started):
        assert one["finished_at"] <= other["started_at"]


async def test_a_suspect_that_is_cancelled_while_it_waits_never_runs(
    workplace: Workplace, tmp_path: Path
) -> None:
    suspect = await workplace.submit(
        call("wait_for_file", f"{tmp_path}/began", f"{tmp_path}/go"), **QUICK
    )
    await make_suspect(workplace)
    neighbour = await workplace.submit(
        call("await_file", f"{tmp_path}/next", f"{tmp_path}/on"), priority=1
    )
    workplace.hire(concurrency=5)
    await eventually((tmp_path / "next").exists)
    await workplace.reach(suspect, "ASSIGNED")
    await workplace.cancel(suspect, "soft")
    await workplace.reach(suspect, "KILLED")
    (tmp_path / "on").touch()
    await workplace.reach(neighbour, "SUCCEEDED")
    assert not (tmp_path / "began").exists()


async def test_suspects_of_two_claims_at_once_do_not_wait_for_each_other(
    workplace: Workplace, tmp_path: Path
) -> None:
    first = await workplace.submit(call("report"), **QUICK)
    second = await workplace.submit(call("report"), **QUICK)
    await make_suspect(workplace)
    ledger = workplace.server.runtime.ledger
    await pause_queue(ledger, QUEUE, actor="tester")
    busy = await workplace.submit(
        call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"), queue="other"
    )
    async with FaultyProxy(workplace.url) as proxy:
        workplace.hire(server=proxy.url, queues=("other", QUEUE), concurrency=2)
        await eventually((tmp_path / "began").exists)
        # Both claims are under way, for one task each, before the answer to one of them is read.
        proxy.hold_answers()
        await resume_queue(ledger, QUEUE, actor="ann")
        await workplace.reach(first, "ASSIGNED")
        (tmp_path / "go").touch()
        await workplace.reach(second, "ASSIGNED")
        proxy.mend()
        await workplace.reach(busy, "SUCCEEDED")
        await workplace.reach(first, "SUCCEEDED")
        await workplace.reach(second, "SUCCEEDED")


async def test_whoever_waits_for_a_change_hears_of_the_next_one() -> None:
    changes = Changes()
    changes.notify()  # of the past
    waiting = [asyncio.create_task(changes.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(waiter.done() for waiter in waiting)
    changes.notify()
    await asyncio.gather(*waiting)


async def test_a_worker_stays_if_what_is_stuck_goes_after_all(
    workplace: Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(attempt_module, "STUCK_SECONDS_MAX", 0.1)
    monkeypatch.setattr(attempt_module, "GO_SECONDS_MAX", 100.0)
    stuck = await workplace.submit(
        call("refuse_to_stop", f"{tmp_path}/began", f"{tmp_path}/go"), lease=120.0
    )
    lasting = await workplace.submit(call("wait_for_file", f"{tmp_path}/two", f"{tmp_path}/end"))
    _, running = workplace.hire()
    await eventually((tmp_path / "began").exists)
    await eventually((tmp_path / "two").exists)
    await workplace.cancel(stuck, "hard")
    await eventually(lambda: f"task {stuck} attempt 0 does not stop" in caplog.text)
    waiting = await workplace.submit(call("add", 1))
    (tmp_path / "go").touch()
    await workplace.ended(stuck)
    await workplace.reach(waiting, "SUCCEEDED")
    (tmp_path / "end").touch()
    await workplace.reach(lasting, "SUCCEEDED")
    assert not running.done()
