"""Claiming: as much as there is room for, and again under the same key if an answer is lost."""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.workers.resources import Capacity
from holdfast.worker.claimed import claims as claims_module
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
            "update holdfast.leases set expires_at = holdfast.now() + interval '8 s'"
        )
        # An answer to a claim and one to a completion may have been made before that; not a third.
        lost = proxy.answers_lost
        await eventually(lambda: proxy.answers_lost >= lost + 3)
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


CLAIM, START = b'"claim":{', b'"start":true'
CARRIED_KEY = re.compile(rb'"claim":\{[^}]*"idempotency_key":"([^"]+)"')


async def reach_all(workplace: Workplace, task_id: str, count: int) -> None:
    """Wait until all tasks of a job have succeeded, each at its first attempt."""
    job_id = int(task_id.partition(".")[0])
    query = "select 1 from holdfast.jobs where job_id = $1 and succeeded = $2"
    await eventually(lambda: workplace.fetch(query, job_id, count))
    assert not await workplace.fetch("select 1 from holdfast.attempts where attempt > 0")


async def test_completions_bring_the_next_claim_along_and_its_starts_are_recorded(
    workplace: Workplace, database: Any
) -> None:
    task_id = await workplace.submit(call("add", 1), list(range(60)))
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite_requests(CLAIM, CLAIM)  # the same: to count them
        worker, running = workplace.hire(server=proxy.url, concurrency=4)
        await reach_all(workplace, task_id, 60)
        worker.drain()
        await running
        assert proxy.requests_rewritten
    started = "select 1 from holdfast.tasks where claim_seq is not null"
    assert await workplace.fetch(started), "some starts are recorded by their claims"
    await assert_audit_is_silent(database)


@pytest.mark.parametrize("text", [CLAIM, START], ids=["claim", "start"])
async def test_an_older_server_behind_the_same_address_is_asked_as_it_understands(
    workplace: Workplace, text: bytes
) -> None:
    """It refuses a field that the one before it had offered: so nothing has happened yet."""
    task_id = await workplace.submit(call("add", 1), list(range(60)))
    unknown = text.replace(b"a", b"x")
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite_requests(text, unknown)
        proxy.rewrite(unknown[1:6], text[1:6])
        worker, running = workplace.hire(server=proxy.url, concurrency=4)
        await reach_all(workplace, task_id, 60)
        worker.drain()
        await running
        assert proxy.requests_rewritten


async def test_a_server_that_offers_nothing_is_asked_for_nothing_new(workplace: Workplace) -> None:
    task_id = await workplace.submit(call("add", 1), list(range(20)))
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite(b'"abilities"', b'"xbilities"')
        proxy.rewrite_requests(CLAIM, CLAIM)
        worker, running = workplace.hire(server=proxy.url, concurrency=4)
        await reach_all(workplace, task_id, 20)
        worker.drain()
        await running
        assert not proxy.requests_rewritten
    assert not await workplace.fetch("select 1 from holdfast.tasks where claim_seq is not null")


async def test_what_completions_bring_back_to_a_worker_that_leaves_is_handed_back(
    workplace: Workplace, database: Any
) -> None:
    await workplace.submit(call("add", 1), list(range(1000)))
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite_requests(CLAIM, CLAIM)
        worker, running = workplace.hire(server=proxy.url, concurrency=4)
        await eventually(lambda: proxy.requests_rewritten > 2)
        proxy.hold_answers()
        worker.drain()
        proxy.mend()
        await running
    assert not await workplace.fetch("select 1 from holdfast.leases")
    await assert_audit_is_silent(database)


async def test_what_comes_back_after_it_was_given_up_is_handed_back_all_the_same(
    workplace: Workplace,
    database: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(claims_module, "RECALL_SECONDS_MAX", 0.05)
    await workplace.submit(call("add", 1), list(range(1000)))
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite_requests(CLAIM, CLAIM)
        worker, running = workplace.hire(server=proxy.url, concurrency=4)
        await eventually(lambda: proxy.requests_rewritten > 2)
        proxy.hold_answers()
        worker.drain()
        await eventually(lambda: "is not known" in caplog.text)
        proxy.mend()
        await running
    # Of a claim that went by itself, nobody hears any more: its request has ended.
    keys = [match[1].decode() for match in CARRIED_KEY.finditer(b"".join(proxy.rewritten))]
    assert keys
    query = "select 1 from holdfast.leases where claim_key = any ($1)"
    assert not await workplace.fetch(query, keys)
    await assert_audit_is_silent(database)


async def test_a_claim_whose_answer_is_lost_with_that_of_completions_is_found_by_its_key(
    workplace: Workplace, database: Any
) -> None:
    task_id = await workplace.submit(call("add", 1), list(range(200)))
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite_requests(CLAIM, CLAIM)
        worker, running = workplace.hire(server=proxy.url, concurrency=4)
        await eventually(lambda: proxy.requests_rewritten > 2)
        proxy.lose_answers()
        await eventually(lambda: proxy.answers_lost > 2)
        proxy.mend()
        await reach_all(workplace, task_id, 200)
        worker.drain()
        await running
    await assert_audit_is_silent(database)
