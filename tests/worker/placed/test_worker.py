"""What a worker of placed work does with the calls it gets, whatever is in them."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.wire.cluster import TaskToKill
from holdfast.worker.building.caches import Hold, try_hold
from holdfast.worker.building.environments import name_environment
from holdfast.worker.placed import shim_handle
from holdfast.worker.placed.incarnation import CallRefused
from holdfast.worker.placed.worker import PlacedWorker
from tests.waiting import eventually
from tests.worker.living import await_process, lives
from tests.worker.placed_orders import EPOCH, Caller, an_order, softly
from tests.worker.placed_workplace import Employed, PlacedWorkplace, open_placed
from tests.worker.shimmed import find_shim, list_carriers

REQUIREMENTS = ["nothing-of-the-kind==1.0"]


@pytest.fixture
async def employed(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Employed]:
    """A worker whose own server does not call it but when it is asked to."""
    monkeypatch.setattr("holdfast.worker.placed.worker.REPORT_SECONDS_MAX", 0.05)
    async with open_placed(database_url, tmp_path, tick=60.0) as workplace:
        employed = workplace.employ()

        async def has_answered() -> bool:
            query = "select 1 from holdfast.workers where answered_at is not null"
            return bool(await workplace.fetch(query))

        await eventually(has_answered)
        yield employed


@pytest.fixture
def worker(employed: Employed) -> PlacedWorker:
    """The worker."""
    return employed.worker


@pytest.fixture
def caller(worker: PlacedWorker) -> Caller:
    """Somebody who calls it."""
    caller = Caller(worker)
    caller.call()
    return caller


def names(entries: Any) -> list[tuple[int, str]]:
    """List attempts with their states or statuses."""
    return sorted(
        (entry.attempt, getattr(entry, "state", None) or entry.status) for entry in entries
    )


async def test_a_call_for_another_or_not_newer_than_the_last_is_refused(
    caller: Caller, worker: PlacedWorker
) -> None:
    order = an_order()
    for changes in (
        {"worker_id": "another"},
        {"number": 1},
        {"epoch": EPOCH - 1, "number": 1000},
    ):
        with pytest.raises(CallRefused):
            caller.call([order], **changes)
    assert caller.call().running_tasks == []
    caller.call([order], epoch=EPOCH + 1, number=1)
    with pytest.raises(CallRefused):
        caller.call()
    assert worker.worker_id.startswith("w0-")


async def test_without_a_stored_answer_nothing_is_started(caller: Caller) -> None:
    order = an_order()
    unknown: dict[str, Any]
    for unknown in ({"answered_number": None}, {"answered_number": 999}):
        assert caller.call([order], **unknown).running_tasks == []
    assert caller.call([an_order(lease_ms=None)]).running_tasks == []
    assert names(caller.call([order]).running_tasks) == [(0, "ASSIGNED")]
    await caller.until_ended(kill=[order])


async def test_what_has_hardly_any_lease_left_is_not_started(caller: Caller) -> None:
    answer = caller.call([an_order(lease_ms=10)])
    assert (answer.running_tasks, answer.completed_tasks) == ([], [])


@pytest.mark.parametrize("steps", [0, 1, 2, 30, 200])
async def test_a_kill_reaches_an_attempt_however_far_its_start_has_got(
    caller: Caller, employed: Employed, steps: int
) -> None:
    order = an_order()
    caller.call([order])
    for _ in range(steps):
        await asyncio.sleep(0.001)
    [end] = await caller.until_ended(kill=[order])
    assert end.status == "killed"
    assert list_carriers(str(order.lease_token)) == []
    assert caller.call(heard=[order]).completed_tasks == []
    await eventually(lambda: not employed.folders)


async def test_what_is_asked_while_the_shim_is_started_is_not_lost(
    caller: Caller, tmp_path: Path
) -> None:
    mark = tmp_path / "heard"
    order = an_order(
        shell=f"trap 'touch {mark}; exit 0' TERM; touch {mark}.up; while :; do sleep 0.02; done"
    )
    caller.call([order])
    await asyncio.sleep(0)  # it has begun to start
    caller.call([softly(order)])
    caller.call([softly(order)])
    [end] = await caller.until_ended([softly(order)])
    # Told before it could listen it is gone at once; after that it has its grace.
    assert mark.exists() == (end.status == "succeeded")
    assert end.status in ("succeeded", "killed")


async def test_an_attempt_that_was_cancelled_before_it_came_is_never_started(
    caller: Caller, employed: Employed
) -> None:
    order = an_order(cancel_ms=1000)
    answer = caller.call([order])
    assert (answer.running_tasks, names(answer.completed_tasks)) == ([], [(0, "killed")])
    assert employed.folders == []


async def test_an_attempt_begins_once_however_often_it_is_named(
    caller: Caller, tmp_path: Path
) -> None:
    order = an_order(shell=f"echo x >> {tmp_path}/begun")
    [end] = await caller.until_ended([order])
    assert end.status == "succeeded"
    for _ in range(3):
        answer = caller.call([order], heard=[order])
        assert (answer.running_tasks, answer.completed_tasks) == ([], [])
    assert (tmp_path / "begun").read_text() == "x\n"


async def test_what_runs_cannot_be_acknowledged_away(caller: Caller) -> None:
    order = an_order()
    await caller.until_running(order)
    answer = caller.call([order], heard=[order])
    assert names(answer.running_tasks) == [(0, "RUNNING")]
    await caller.until_ended(kill=[order])


async def test_what_nobody_names_is_killed(caller: Caller, tmp_path: Path) -> None:
    order = an_order(shell=f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done")
    await caller.until_running(order)
    process = await_process(tmp_path / "pid")
    [end] = await caller.until_ended()
    assert end.status == "killed"
    assert not process.is_running()
    assert names(caller.call().completed_tasks) == [(0, "killed")]  # told until it is heard
    assert caller.call(heard=[order]).completed_tasks == []


async def test_the_next_attempt_of_a_task_does_not_wait_for_the_last_to_die(
    caller: Caller, tmp_path: Path
) -> None:
    first, second = an_order(0), an_order(1)
    await caller.until_running(first)
    answer = caller.call([second], [first])
    assert {entry.attempt for entry in answer.running_tasks} == {0, 1}

    def is_next() -> bool:
        answer = caller.call([second], [first])
        return (names(answer.running_tasks), names(answer.completed_tasks)) == (
            [(1, "RUNNING")],
            [(0, "killed")],
        )

    await eventually(is_next)
    assert list_carriers(str(first.lease_token)) == []
    await caller.until_ended(kill=[first, second])


async def test_a_stuck_shim_is_killed_in_time_however_often_its_attempt_is_named(
    caller: Caller, worker: PlacedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_handle, "KILL_SECONDS_MAX", 0.5)
    first, second = an_order(0), an_order(1)
    await caller.until_running(first)
    find_shim(worker.options.folder / "999.0.0").suspend()
    kill = [TaskToKill(first.task_id, first.attempt, first.lease_token, lease_ms=600_000)]

    def is_next() -> bool:
        answer = caller.call([second], tasks_to_kill=kill)
        return (names(answer.running_tasks), names(answer.completed_tasks)) == (
            [(1, "RUNNING")],
            [(0, "worker_failed")],
        )

    await eventually(is_next)
    assert list_carriers(str(first.lease_token)) == []
    await caller.until_ended(kill=[first, second])


async def test_a_kill_makes_an_end_of_grace(caller: Caller, tmp_path: Path) -> None:
    order = an_order(shell=f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done")
    caller.call([order])
    await eventually((tmp_path / "up").exists)
    caller.call([softly(order)])
    assert caller.call([softly(order)]).completed_tasks == []
    [end] = await caller.until_ended(kill=[order])
    assert (end.status, end.exit_code) == ("killed", 137)


async def test_a_run_that_took_too_long_has_its_grace_unless_nobody_names_it(
    caller: Caller, tmp_path: Path
) -> None:
    script = "trap '' TERM; touch {mark}; while :; do sleep 0.05; done"
    first = an_order(0, shell=script.format(mark=tmp_path / "first"), timeout=0.001)
    await caller.until_running(first)
    await eventually((tmp_path / "first").exists)
    caller.call(kill=[first])
    assert names(caller.call(kill=[first]).running_tasks) == [(0, "RUNNING")]
    [end] = await caller.until_ended()
    assert end.status == "killed"


async def test_the_lease_ends_an_attempt_that_is_not_renewed(caller: Caller) -> None:
    order = an_order(lease=1.5, lease_ms=1500)

    def ends() -> Any:
        # Named, but as by one who has stored no answer since the first.
        return caller.call([order], answered_number=1).completed_tasks

    [end] = await eventually(ends)
    assert (end.status, end.error) == ("worker_failed", "its lease ran out, so it was killed")
    assert list_carriers(str(order.lease_token)) == []


def hold_environment(worker: PlacedWorker) -> Hold:
    """Be in the middle of making the environment that builds wait for."""
    assert worker.options.cache is not None
    folder = worker.options.cache / "environments" / name_environment(REQUIREMENTS)
    folder.mkdir(parents=True)
    hold = try_hold(folder)
    assert hold is not None
    return hold


async def test_a_build_is_broken_off_when_the_attempt_shall_stop(
    caller: Caller, worker: PlacedWorker, employed: Employed
) -> None:
    hold = hold_environment(worker)
    first, second = an_order(0, requirements=REQUIREMENTS), an_order(1, requirements=REQUIREMENTS)
    caller.call([first, second])

    def are_building() -> bool:
        states = names(caller.call([first, second]).running_tasks)
        return states == [(0, "BUILDING"), (1, "BUILDING")]

    await eventually(are_building)
    caller.call([softly(first)], [second])
    caller.call([], [first, second])  # and once more, while they are at it
    ends = await caller.until_ended(kill=[first, second])
    assert names(ends) == [(0, "killed"), (1, "killed")]
    hold.close()
    caller.call(heard=[first, second])
    await eventually(lambda: not employed.folders)


async def test_a_build_that_is_broken_off_leaves_no_program_behind(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}{os.pathsep}{os.environ['PATH']}")
    order = an_order(requirements=REQUIREMENTS)
    caller.call([order])
    await eventually((tmp_path / "pid").exists)
    process = await_process(tmp_path / "pid")
    caller.call([softly(order)])
    for _ in range(5):
        await asyncio.sleep(0)
    caller.call(kill=[order])  # and once more, while it is at it
    [end] = await caller.until_ended(kill=[order])
    assert end.status == "killed"
    assert not lives(process)


async def test_a_build_ends_with_its_lease_but_not_before(
    caller: Caller, worker: PlacedWorker
) -> None:
    hold = hold_environment(worker)
    first, second = (
        an_order(number, requirements=REQUIREMENTS, lease=1.0, lease_ms=1000) for number in (0, 1)
    )
    renewed = msgspec.structs.replace(first, lease_ms=600_000)
    caller.call([first, second])
    caller.call([renewed, second], answered_number=2)

    def has_ended() -> Any:
        answer = caller.call([renewed, second], answered_number=2)
        return answer if answer.completed_tasks else None

    answer = await eventually(has_ended)
    assert names(answer.running_tasks) == [(0, "BUILDING")]
    [end] = answer.completed_tasks
    assert (end.attempt, end.status) == (1, "worker_failed")
    assert end.error == "its lease ran out in the build"
    hold.close()
    await caller.until_ended(kill=[first, second])


async def test_a_worker_that_breaks_gives_the_attempt_up(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr("holdfast.worker.placed.runner.LogTail", break_down)
    order = an_order(shell=f"echo $$ > {tmp_path}/pid; exec sleep 600")
    [end] = await caller.until_ended([order])
    assert (end.status, end.error) == (
        "worker_failed",
        "a fault of the worker: RuntimeError: out of order",
    )
    assert list_carriers(str(order.lease_token)) == []


async def test_a_call_that_makes_no_sense_breaks_nothing(caller: Caller) -> None:
    order = an_order()
    strange = msgspec.structs.replace(an_order(1), job=msgspec.Raw(b'{"of": "another version"}'))
    assert names(caller.call([strange, order]).running_tasks) == [(0, "ASSIGNED")]
    await caller.until_running(order)
    answer = caller.call([order], [order])  # wanted and not wanted: then it has to go
    assert answer.completed_tasks == []
    [end] = await caller.until_ended(kill=[order])
    assert end.status == "killed"


async def test_what_a_draining_worker_is_given_it_hands_back_at_once(
    placed: PlacedWorkplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.placed.worker.REPORT_SECONDS_MAX", 0.05)
    employed = placed.employ(drain_seconds=600.0)
    task_id = await placed.place({"shell": f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"})
    await placed.reach(task_id, "RUNNING")
    employed.worker.drain()
    caller = Caller(employed.worker)
    caller.call()
    # Both of its calls name nothing of the server's, which so is not wanted any more.
    order = an_order()
    answer = caller.call([order])
    assert names(answer.completed_tasks) == [(0, "handed_back")]
    (tmp_path / "go").touch()
    await employed.end()
