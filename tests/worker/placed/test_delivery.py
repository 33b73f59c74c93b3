"""Tasks on their way to real workers: what hangs gets none, what never arrived goes elsewhere."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.model.work.states import TaskState
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.placed_workplace import (
    Employed,
    PlacedWorkplace,
    called_through_a_proxy,
    open_placed,
)

HOUR = 3600.0
# Longer than any wait of a test: nothing here is placed again because a lease has ended.
LEASE = 120.0


async def heard(placed: PlacedWorkplace, employed: Employed) -> None:
    """Wait until an answer of a worker is stored."""

    async def is_stored() -> bool:
        query = "select 1 from holdfast.workers where worker_id = $1 and answered_at is not null"
        return bool(await placed.fetch(query, employed.worker.worker_id))

    await eventually(is_stored)


async def workers_of(placed: PlacedWorkplace, task_id: str) -> list[tuple[str, str]]:
    """List on which workers the attempts of a task were, and how they ended."""
    rows: list[Any] = await placed.attempts(task_id)
    return [(row["worker_id"], TaskState(row["state"]).name) for row in rows]


async def test_a_worker_whose_answers_do_not_come_is_given_nothing_meanwhile(
    database_url: str, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.services.leading.heartbeat_loop.HANG_SECONDS", 0.3)
    async with (
        called_through_a_proxy() as (proxy, options),
        open_placed(database_url, tmp_path) as placed,
    ):
        hanging = placed.employ(**options)
        await heard(placed, hanging)
        proxy.hold_answers()

        async def hangs() -> bool:
            query = "select 1 from holdfast.workers where answered_at < now() - interval '1 s'"
            return bool(await placed.fetch(query))

        await eventually(hangs)
        task_id = await placed.place({"shell": "true"}, lease=LEASE)
        other = placed.employ()
        await placed.reach(task_id, "SUCCEEDED")
        proxy.mend()
        assert await workers_of(placed, task_id) == [(other.worker.worker_id, "SUCCEEDED")]
    await assert_audit_is_silent(database)


async def test_a_task_that_never_arrived_is_placed_elsewhere_though_its_lease_goes_on(
    database_url: str, tmp_path: Path, database: Database
) -> None:
    async with (
        called_through_a_proxy() as (proxy, options),
        open_placed(database_url, tmp_path, tick=HOUR) as placed,
    ):
        gone = placed.employ(**options)
        await heard(placed, gone)
        await proxy.refuse()
        task_id = await placed.place({"shell": "true"}, lease=LEASE)
        ended = await placed.ended(task_id)
        assert ended["error"] == "it did not arrive on its worker"
        other = placed.employ()
        await placed.reach(task_id, "SUCCEEDED")
        assert await workers_of(placed, task_id) == [
            (gone.worker.worker_id, "WORKER_FAILED"),
            (other.worker.worker_id, "SUCCEEDED"),
        ]
        [task] = await placed.about("tasks", task_id)
        assert task["preemption_count"] == 0
    await assert_audit_is_silent(database)


async def test_a_task_that_may_have_arrived_stays_until_that_is_known(
    database_url: str, tmp_path: Path, database: Database
) -> None:
    """Its answer is lost, so it may run there: the next answer that comes says that it does."""
    async with (
        called_through_a_proxy() as (proxy, options),
        open_placed(database_url, tmp_path, tick=HOUR) as placed,
    ):
        worker = placed.employ(**options)
        await heard(placed, worker)
        proxy.lose_answers()
        done = tmp_path / "done"
        task_id = await placed.place({"shell": f"echo x >> {done}"}, lease=LEASE)
        await eventually(done.exists)
        placed.employ()
        assert not await placed.attempts(task_id)
        proxy.mend()
        placed.server.runtime.hint(worker.worker.worker_id)
        await placed.reach(task_id, "SUCCEEDED")
        assert await workers_of(placed, task_id) == [(worker.worker.worker_id, "SUCCEEDED")]
        assert done.read_text() == "x\n"
    await assert_audit_is_silent(database)
