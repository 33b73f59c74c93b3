"""A worker of placed work that died and is back: what it finds running, ended or lost."""

import signal
from pathlib import Path
from typing import Any

from holdfast.model.work.ids import parse_task_id
from holdfast.model.work.states import TaskState
from holdfast.operations.logs import read_log
from tests.audits import assert_audit_is_silent
from tests.killing import kill_and_see_gone
from tests.waiting import eventually
from tests.worker.living import await_process, lives
from tests.worker.placed.test_life import begin, waiter
from tests.worker.placed_workplace import Employed, PlacedWorkplace, open_placed
from tests.worker.shimmed import find_shim


async def holder(placed: PlacedWorkplace, task_id: str) -> str | None:
    """Say which incarnation holds the lease of a task."""
    rows = await placed.about("leases", task_id)
    return rows[0]["worker_id"] if rows else None


async def come_back(placed: PlacedWorkplace, last: Employed, **options: Any) -> Employed:
    """Start a worker on the slot of one that crashed, and wait until it has registered."""
    employed = placed.employ(**options)
    assert employed.worker.options.folder == last.worker.options.folder
    await placed.await_lost(last.worker.worker_id)
    return employed


async def test_what_still_runs_is_adopted_and_runs_on(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    first = placed.employ()
    task_id = await begin(placed, tmp_path, lease=4.0)
    process = await_process(tmp_path / "task")
    await first.crash()
    second = await come_back(placed, first)
    assert await holder(placed, task_id) == second.worker.worker_id
    [lease] = await placed.about("leases", task_id)

    async def outlives_the_lease_it_had() -> bool:
        [now] = await placed.about("leases", task_id)
        return bool(now["expires_at"] > lease["expires_at"] + now["duration"])

    # Its shim was told of the renewals: otherwise it would have ended it by now.
    await eventually(outlives_the_lease_it_had)
    assert lives(process)
    (tmp_path / "go").touch()
    task = await placed.reach(task_id, "SUCCEEDED")
    assert task["attempt"] == 0
    assert (await placed.event_types(task_id)).count("started") == 1
    await eventually(lambda: not second.folders)
    await assert_audit_is_silent(database)


async def test_a_worker_that_adopts_is_called_twice_so_that_its_leases_count_on(
    database_url: str, tmp_path: Path
) -> None:
    async with open_placed(database_url, tmp_path, tick=60.0) as placed:
        first = placed.employ()
        await begin(placed, tmp_path, lease=120.0)
        await first.crash()
        before = await count_calls(placed)
        await come_back(placed, first)

        async def has_been_called_twice() -> bool:
            return await count_calls(placed) >= before + 2

        await eventually(has_been_called_twice)
        (tmp_path / "go").touch()


async def count_calls(placed: PlacedWorkplace) -> float:
    """Count the calls that were answered so far."""
    lines = (await placed.server.runtime.scrape()).decode().splitlines()
    name = "holdfast_heartbeat_seconds_count "
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


async def test_what_ended_while_the_worker_was_away_is_told_with_all_it_has_said(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    first = placed.employ()
    wait = waiter(tmp_path)["shell"]
    task_id = await placed.place({"shell": f"echo before; {wait}; echo after"}, lease=120.0)
    await placed.reach(task_id, "RUNNING")

    [folder] = first.folders
    await eventually((folder / "output.sent").exists)
    process = await_process(tmp_path / "task")
    await first.crash()
    (tmp_path / "go").touch()
    await eventually(lambda: not lives(process))
    second = await come_back(placed, first)
    assert await placed.outcome(task_id) == ("SUCCEEDED", 0, None)
    [attempt] = await placed.attempts(task_id)
    assert attempt["worker_id"] == second.worker.worker_id
    # The beginning is not sent again: it has the time at which it was said.
    stored = {row["start_offset"]: row["content"] for row in await placed.about("logs", task_id)}
    assert stored == {0: b"before\n", 7: b"after\n"}
    log = await read_log(database, parse_task_id(task_id))
    assert (log.content, log.is_complete) == (b"before\nafter\n", True)
    await assert_audit_is_silent(database)


async def test_an_attempt_whose_shim_was_lost_is_given_up(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    first = placed.employ()
    task_id = await begin(placed, tmp_path, lease=120.0, max_retries_preemption=0)
    process = await_process(tmp_path / "task")
    [folder] = first.folders
    shim = find_shim(folder)
    await first.crash()
    kill_and_see_gone(shim.pid)
    await come_back(placed, first)
    state, _, error = await placed.outcome(task_id)
    assert (state, error) == ("WORKER_FAILED", "its shim was lost, so it was killed")
    assert not lives(process)


async def test_what_was_cancelled_meanwhile_is_ended_and_confirmed(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    first = placed.employ()
    task_id = await begin(placed, tmp_path, lease=120.0)
    process = await_process(tmp_path / "task")
    await first.crash()
    await placed.cancel(task_id, "hard")
    [attempt] = await placed.attempts(task_id)
    assert attempt["released_at"] is None
    assert lives(process)
    second = await come_back(placed, first)
    ended = await placed.ended(task_id)
    assert TaskState(ended["state"]) is TaskState.KILLED
    assert ended["released_at"] < ended["last_lease_expires_at"]
    assert not lives(process)
    await eventually(lambda: not second.folders)
    await assert_audit_is_silent(database)


async def test_what_another_has_taken_over_is_ended(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    first = placed.employ()
    task_id = await begin(placed, tmp_path, lease=1.0)
    process = await_process(tmp_path / "task")
    [folder] = first.folders
    shim = find_shim(folder)
    shim.suspend()  # or it would end it itself
    await first.crash()
    other = placed.employ(folder=tmp_path / "other", name="other")
    await placed.ended(task_id)
    assert lives(process)
    shim.send_signal(signal.SIGCONT)
    await eventually(lambda: not lives(process))
    (tmp_path / "go").touch()
    await placed.reach(task_id, "SUCCEEDED")
    [_, last] = await placed.attempts(task_id)
    assert last["worker_id"] == other.worker.worker_id
    await assert_audit_is_silent(database)


async def test_a_build_that_was_interrupted_leaves_nothing_behind(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    rubbish = tmp_path / "slot-0" / "1.0.0"
    (rubbish / "work").mkdir(parents=True)
    (rubbish / "work" / "half").touch()
    employed = placed.employ()
    task_id = await placed.place({"shell": "true"})
    assert task_id == "1.0"
    assert await placed.outcome(task_id) == ("SUCCEEDED", 0, None)
    await eventually(lambda: not employed.folders)
