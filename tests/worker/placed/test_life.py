"""The life of a worker of placed work: it registers, is called, falls silent, drains, leaves."""

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.operations.register import drain
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.living import await_process, lives
from tests.worker.placed_workplace import (
    ROOM,
    Employed,
    PlacedWorkplace,
    called_through_a_proxy,
    open_placed,
)

HANDED_BACK = (7, "handed back")


def waiter(folder: Path, name: str = "task") -> dict[str, Any]:
    """Write an entrypoint that runs until there is a file `go`."""
    wait = f"while [ ! -e {folder}/go ]; do sleep 0.02; done"
    return {
        "shell": f"echo $$ > {folder}/{name}.new; mv {folder}/{name}.new {folder}/{name}; {wait}"
    }


async def begin(placed: PlacedWorkplace, folder: Path, **spec: Any) -> str:
    """Run a waiter."""
    task_id = await placed.place(waiter(folder), **spec)
    await placed.reach(task_id, "RUNNING")
    return task_id


async def answered(placed: PlacedWorkplace, employed: Employed) -> Any:
    """Wait until an answer of a worker is stored; returns its row."""

    async def row() -> Any:
        query = "select * from holdfast.workers where worker_id = $1 and answered_at is not null"
        return next(iter(await placed.fetch(query, employed.worker.worker_id)), None)

    return await eventually(row)


async def assert_handed_back(placed: PlacedWorkplace, task_id: str) -> None:
    """See that a task waits for its next attempt, and has not paid for the last."""
    [task] = await placed.about("tasks", task_id)
    [attempt] = await placed.attempts(task_id)
    assert (attempt["state"], attempt["error"]) == HANDED_BACK
    assert (task["state"], task["preemption_count"], task["attempt"]) == (1, 0, 1)
    assert not await placed.about("leases", task_id)


async def test_a_worker_says_what_it_has_and_where_it_is_called(placed: PlacedWorkplace) -> None:
    employed = placed.employ(attributes={"region": "eu", "rack": 7})
    row = await answered(placed, employed)
    assert json.loads(row["capacity"])["cpu"] == ROOM.cpu
    assert json.loads(row["attributes"]) == {"region": "eu", "rack": 7}
    assert row["address"].startswith("http://127.0.0.1:")
    elsewhere = placed.employ(address="http://127.0.0.1:1")

    async def known() -> list[Any]:
        query = "select address from holdfast.workers where worker_id = $1"
        return await placed.fetch(query, elsewhere.worker.worker_id)

    [row] = await eventually(known)
    assert row["address"] == "http://127.0.0.1:1"


async def test_a_worker_that_leaves_is_known_to_have_left(placed: PlacedWorkplace) -> None:
    employed = placed.employ()
    await answered(placed, employed)
    employed.worker.drain()
    await employed.end()
    assert (await placed.await_lost(employed.worker.worker_id))["lost_cause"] == "left"


async def test_a_draining_worker_finishes_what_runs_and_takes_nothing_more(
    placed: PlacedWorkplace, tmp_path: Path, database: Any
) -> None:
    employed = placed.employ(drain_seconds=600.0)
    task_id = await begin(placed, tmp_path)
    employed.worker.drain()

    async def is_draining() -> list[Any]:
        return await placed.fetch("select 1 from holdfast.workers where draining_at is not null")

    await eventually(is_draining)
    later = await placed.place({"shell": "true"})
    (tmp_path / "go").touch()
    await employed.end()
    assert await placed.state(task_id) == "SUCCEEDED"
    assert json.loads((await placed.account(task_id))["usage"])["processes_max"] >= 1
    assert (await placed.state(later), await placed.attempts(later)) == ("PENDING", [])
    assert employed.folders == []
    await assert_audit_is_silent(database)


@pytest.mark.parametrize("times", [1, 2])
async def test_what_takes_too_long_is_stopped_and_handed_back(
    placed: PlacedWorkplace, tmp_path: Path, times: int
) -> None:
    employed = placed.employ(drain_seconds=0.05 if times == 1 else 600.0)
    task_id = await begin(placed, tmp_path)
    process = await_process(tmp_path / "task")
    for _ in range(times):
        employed.worker.drain()
    await employed.end()
    assert not lives(process)
    await assert_handed_back(placed, task_id)
    assert employed.folders == []


async def test_the_server_can_ask_a_worker_to_drain(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    employed = placed.employ(drain_seconds=0.05)
    task_id = await begin(placed, tmp_path)
    assert await drain(placed.server.runtime.ledger, employed.worker.worker_id, actor="tester")
    await employed.end()
    await assert_handed_back(placed, task_id)


async def test_a_worker_that_could_not_register_ends_when_it_shall(
    placed: PlacedWorkplace,
) -> None:
    async with FaultyProxy(placed.url) as proxy:
        await proxy.cut()
        employed = placed.employ(server=proxy.url)
        employed.worker.drain()
        assert "no answer" in await employed.fail()


async def test_a_worker_that_cannot_reach_the_server_tells_its_ends_when_it_is_called(
    placed: PlacedWorkplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.placed.worker.REPORT_SECONDS_MAX", 60.0)
    async with FaultyProxy(placed.url) as proxy:
        employed = placed.employ(server=proxy.url)
        task_id = await begin(placed, tmp_path, lease=120.0)
        await proxy.cut()
        employed.worker.drain()
        await employed.end()
    # The answer to a call says that the worker takes nothing more, so it got the task but once.
    await assert_handed_back(placed, task_id)


async def test_a_worker_that_is_not_called_tells_its_ends_by_itself(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.placed.worker.REPORT_SECONDS_MAX", 0.05)
    async with (
        called_through_a_proxy() as (proxy, options),
        open_placed(database_url, tmp_path, tick=60.0) as placed,
    ):
        employed = placed.employ(**options)
        task_id = await begin(placed, tmp_path, lease=120.0)
        await proxy.cut()
        employed.worker.drain()
        await employed.end()
        await assert_handed_back(placed, task_id)


async def test_a_worker_that_nobody_calls_stops_its_tasks_and_starts_anew(
    database_url: str, tmp_path: Path, database: Any
) -> None:
    async with open_placed(database_url, tmp_path, tick=60.0) as placed:
        employed = placed.employ(heartbeat_timeout_seconds=3.0)
        task_id = await begin(placed, tmp_path)
        silent = employed.worker.worker_id
        process = await_process(tmp_path / "task")
        ended = await placed.ended(task_id)
        assert (ended["state"], ended["error"]) == (7, "worker replaced after it was gone")
        assert not lives(process)
        heir = employed.worker.worker_id
        assert (await placed.await_lost(silent))["replaced_by"] == heir
        (tmp_path / "go").touch()
        await placed.reach(task_id, "SUCCEEDED")
        await assert_audit_is_silent(database)


async def test_a_worker_without_calls_does_not_wait_longer_than_its_leases_last(
    database_url: str, tmp_path: Path
) -> None:
    async with (
        called_through_a_proxy() as (proxy, options),
        open_placed(database_url, tmp_path, tick=60.0) as placed,
    ):
        employed = placed.employ(heartbeat_timeout_seconds=600.0, **options)
        await begin(placed, tmp_path, lease=2.0)
        silent = employed.worker.worker_id
        process = await_process(tmp_path / "task")
        await proxy.cut()
        await placed.await_lost(silent)
        assert employed.worker.worker_id != silent
        assert not lives(process)
        (tmp_path / "go").touch()


async def test_what_ended_while_nobody_called_is_told_by_the_next_incarnation(
    database_url: str, tmp_path: Path, database: Any
) -> None:
    async with (
        called_through_a_proxy() as (proxy, options),
        open_placed(database_url, tmp_path, tick=60.0) as placed,
    ):
        employed = placed.employ(heartbeat_timeout_seconds=3.0, **options)
        task_id = await begin(placed, tmp_path, lease=120.0)
        silent = employed.worker.worker_id
        await proxy.cut()
        (tmp_path / "go").touch()
        await eventually(lambda: employed.worker.worker_id != silent)
        proxy.mend()
        task = await placed.reach(task_id, "SUCCEEDED")
        assert task["attempt"] == 0
        [attempt] = await placed.attempts(task_id)
        assert attempt["worker_id"] == employed.worker.worker_id
        await assert_audit_is_silent(database)


async def test_a_registration_whose_answer_is_lost_is_repeated(placed: PlacedWorkplace) -> None:
    async with FaultyProxy(placed.url) as proxy:
        proxy.lose_answers()
        employed = placed.employ(server=proxy.url)
        await eventually(lambda: proxy.answers_lost > 1)
        proxy.mend()
        await answered(placed, employed)
        [row] = await placed.fetch("select worker_id from holdfast.workers")
        assert row["worker_id"] == employed.worker.worker_id
        employed.worker.drain()
        await employed.end()


async def test_who_counts_as_lost_before_it_heard_that_it_was_registered_starts_anew(
    placed: PlacedWorkplace,
) -> None:
    async with FaultyProxy(placed.url) as proxy:
        proxy.lose_answers()
        employed = placed.employ(server=proxy.url)
        await eventually(lambda: proxy.answers_lost > 0)
        first = employed.worker.worker_id
        await placed.execute(
            "update holdfast.workers set lost_at = holdfast.now(), lost_cause = 'dead'"
        )
        proxy.mend()
        await answered_as_another(placed, employed, first)
        employed.worker.drain()
        await employed.end()


async def answered_as_another(placed: PlacedWorkplace, employed: Employed, first: str) -> None:
    """Wait until a worker is called under another name than its first."""
    await eventually(lambda: employed.worker.worker_id != first)
    await answered(placed, employed)


async def test_a_registration_that_makes_no_sense_ends_the_worker(
    placed: PlacedWorkplace,
) -> None:
    assert "not a URL" in await placed.employ(address="not a URL").fail()


async def test_what_an_attempt_uses_is_shown_while_it_runs(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    placed.employ()
    task_id = await begin(placed, tmp_path)
    async with hf.Client(placed.url) as client:

        async def used() -> Any:
            task = await client.tasks.get.aio(task_id)
            assert task.attempts is not None
            return task if any(attempt.usage for attempt in task.attempts) else None

        task = await eventually(used)
        job = await client.jobs.get.aio(task.job_id, totals=True)
        assert task.state == "TASK_STATE_RUNNING"
        assert task.attempts[0].usage == task.resource_usage == job.resource_usage
        assert task.resource_usage.memory_peak_bytes > 0
        assert task.resource_usage.processes_max >= 1
        (tmp_path / "go").touch()
        await placed.reach(task_id, "SUCCEEDED")
        ended = (await client.tasks.get.aio(task_id)).resource_usage
    assert ended is not None
    assert ended.cpu_seconds >= task.resource_usage.cpu_seconds
    [account] = await placed.about("attempt_usage", task_id)
    assert account["is_final"]
