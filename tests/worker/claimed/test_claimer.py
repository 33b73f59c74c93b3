"""Claiming: as much as there is room for, and again under the same key if an answer is lost."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.model.resources import Capacity
from holdfast.worker.claimed import running_attempts as running_module
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import Workplace, call


async def test_no_more_is_claimed_than_can_run(workplace: Workplace, tmp_path: Path) -> None:
    await workplace.submit(
        {"shell": f"touch {tmp_path}/$HOLDFAST_INPUT; while :; do sleep 0.01; done"},
        list(range(5)),
    )
    workplace.hire(concurrency=2)
    await eventually(lambda: len(list(tmp_path.glob("[0-9]"))) == 2)
    assert len(await workplace.fetch("select 1 from holdfast.leases")) == 2
    assert len(await workplace.fetch("select 1 from holdfast.ready")) == 3


async def test_too_many_unacknowledged_ends_keep_it_from_claiming_and_only_so_long(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "UNACKNOWLEDGED_MAX", 1)
    task_id = await workplace.submit(call("add", 1), list(range(20)))
    workplace.hire(concurrency=1)
    job_id = int(task_id.partition(".")[0])
    query = "select 1 from holdfast.jobs where job_id = $1 and succeeded = 20"
    await eventually(lambda: workplace.fetch(query, job_id))


async def test_a_claim_whose_answer_is_lost_is_repeated_under_the_same_key(
    workplace: Workplace,
) -> None:
    task_id = await workplace.submit(call("add", 2))
    async with FaultyProxy(workplace.url) as proxy:
        worker, running = workplace.hire(server=proxy.url)
        query = "select 1 from holdfast.workers where worker_id = $1"
        proxy.lose_answers()
        await eventually(lambda: proxy.answers_lost >= 2)
        await eventually(lambda: workplace.fetch(query, worker.worker_id))
        proxy.mend()
        await workplace.reach(task_id, "SUCCEEDED")
        [attempt] = await workplace.attempts(task_id)
        assert attempt["attempt"] == 0
        worker.drain()
        await running


async def test_what_comes_when_its_lease_has_almost_run_out_is_handed_back(
    workplace: Workplace,
) -> None:
    async with FaultyProxy(workplace.url) as proxy:
        worker = workplace.launch(server=proxy.url)
        await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")  # it is at work
        proxy.lose_answers()
        task_id = await workplace.submit(call("add", 1), lease=60.0)
        await eventually(lambda: workplace.fetch("select 1 from holdfast.leases"))
        await workplace.execute(
            "set session_replication_role = replica;"
            "update holdfast.leases set expires_at = holdfast.now() + interval '1.2 s'"
        )
        proxy.mend()
        await workplace.reach(task_id, "SUCCEEDED")
        assert worker.poll() is None
    first, _ = await workplace.attempts(task_id)
    assert (first["state"], first["error"]) == (7, "handed back")


async def test_a_large_batch_is_claimed_and_run(workplace: Workplace, database: Any) -> None:
    task_id = await workplace.submit(call("add", 1), list(range(1200)))
    workplace.hire(concurrency=600)
    job_id = int(task_id.partition(".")[0])
    query = "select succeeded from holdfast.jobs where job_id = $1 and succeeded = 1200"
    await eventually(lambda: workplace.fetch(query, job_id))
    await assert_audit_is_silent(database)


async def test_three_tasks_of_a_core_do_not_run_at_once_on_two(
    workplace: Workplace, tmp_path: Path
) -> None:
    """The third one is claimed as soon as there is room, and what needs nothing runs beside."""
    wait = f"touch {tmp_path}/up-$HOLDFAST_INPUT; until [ -e {tmp_path}/go-$HOLDFAST_INPUT ]; "
    sized = await workplace.submit(
        {"shell": f"{wait} do sleep 0.01; done"}, [0, 1, 2], resources={"cpu": 1}
    )
    large = await workplace.submit({"shell": "true"}, resources={"cpu": 4})
    workplace.hire(concurrency=8, capacity=Capacity(cpu=2.0, memory=1 << 30, disk=1 << 30))
    plain = await workplace.submit({"shell": "true"})
    await workplace.reach(plain, "SUCCEEDED")
    await eventually(lambda: len(list(tmp_path.glob("up-*"))) == 2)
    leased = await workplace.fetch("select task_index from holdfast.leases order by 1")
    assert [row[0] for row in leased] == [0, 1]
    (tmp_path / "go-1").touch()
    await eventually((tmp_path / "up-2").exists)
    assert len(await workplace.fetch("select 1 from holdfast.leases")) == 2
    (tmp_path / "go-0").touch()
    (tmp_path / "go-2").touch()
    for index in range(3):
        await workplace.reach(sized.replace(".0", f".{index}"), "SUCCEEDED")
    assert await workplace.attempts(large) == [], "it never fits here"
    assert len(await workplace.fetch("select 1 from holdfast.ready")) == 1
