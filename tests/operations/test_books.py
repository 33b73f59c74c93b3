"""One book for a process that serves queues and placed work: neither takes what the other has."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import Invalid, LeaseConflict
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.books import Balance, hold_balances
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.placed.place import Scheduler
from holdfast.operations.placed.snapshot import Snapshot
from holdfast.store.database import Database, Transaction
from holdfast.store.tables.workers.workers import hold_open_workers
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld

BOOK = "b"
SIZED: dict[str, Any] = {"queue": "q", "resources": {"cpu": 1}}


def a_claim(count: int = 10, **fields: Any) -> ClaimRequest:
    """Ask for tasks as the half of the process that claims."""
    asked: dict[str, Any] = {"queues": ("q",), "max_tasks": count, "book": BOOK}
    return ClaimRequest("half", **asked | fields)


async def ask(cluster: PlacedWorld, *requests: ClaimRequest) -> list[list[Claim]]:
    """Claim in one batch; nothing is refused."""
    answers = await claim(cluster.ledger, requests or [a_claim()])
    return [answer for answer in answers if isinstance(answer, list)]


async def add_process(cluster: PlacedWorld, cpu: float = 2.0) -> None:
    """Start a process with two cores for both kinds of work."""
    await cluster.add("w1", cpu=cpu, book=BOOK)


async def test_claims_leave_alone_what_is_placed(cluster: PlacedWorld, database: Database) -> None:
    await add_process(cluster)
    placed = await cluster.submit()
    assert await cluster.place() == {TaskId(placed, 0): "w1"}
    sized = await cluster.submit([1, 2, 3], **SIZED)
    plain = await cluster.submit(queue="q")
    [mine] = await ask(cluster)
    assert [each.task_id for each in mine] == [TaskId(sized, 0), TaskId(plain, 0)]
    assert await ask(cluster) == [[]]
    await cluster.succeed(mine[0])
    [[more]] = await ask(cluster)
    assert more.task_id == TaskId(sized, 1)
    await assert_audit_is_silent(database)


async def test_placements_leave_alone_what_is_claimed(
    cluster: PlacedWorld, database: Database
) -> None:
    """Of what it claims, what names no resources costs nothing."""
    await add_process(cluster)
    await cluster.submit([1, 2, 3], queue="q")
    await cluster.submit(**SIZED)
    [mine] = await ask(cluster)
    assert len(mine) == 4
    job_id = await cluster.submit(replicas=2)
    assert await cluster.place() == {TaskId(job_id, 0): "w1"}
    await cluster.succeed(mine[-1])
    assert await cluster.place() == {TaskId(job_id, 1): "w1"}
    await assert_audit_is_silent(database)


class Late(Scheduler):
    """A scheduler whose workers' processes claim something between its plan and its commit."""

    def __init__(self, cluster: PlacedWorld) -> None:
        super().__init__(cluster.ledger)
        self._cluster = cluster

    async def read(self, tx: Transaction) -> Snapshot:
        snapshot = await super().read(tx)
        await ask(self._cluster, a_claim(1))
        return snapshot


@pytest.mark.parametrize(
    ("spec", "left"), [({"replicas": 2}, 1), ({"replicas": 2, "coscheduling": {}}, 2)]
)
async def test_what_is_claimed_after_the_plan_is_not_placed_upon(
    cluster: PlacedWorld, database: Database, spec: dict[str, Any], left: int
) -> None:
    await add_process(cluster)
    await cluster.submit(**SIZED)
    job_id = await cluster.submit(**spec)
    placed = (await Late(cluster).run(await cluster.term())).placed
    assert len(placed) == 2 - left
    states = await cluster.states(job_id)
    assert states.count(TaskState.PENDING) == left
    await assert_audit_is_silent(database)


async def test_claims_of_one_batch_do_not_both_take_the_book(cluster: PlacedWorld) -> None:
    await add_process(cluster)
    await cluster.submit([1, 2, 3, 4], **SIZED)
    first, second = await ask(cluster, a_claim(1), a_claim(3))
    assert (len(first), len(second)) == (1, 0)
    [third] = await ask(cluster)
    assert len(third) == 1


async def test_a_claim_by_id_is_refused_while_there_is_no_room(cluster: PlacedWorld) -> None:
    await add_process(cluster, cpu=1.0)
    large = await cluster.submit(queue="q", resources={"cpu": 2})
    small = await cluster.submit(**SIZED)
    third = await cluster.submit(**SIZED)
    by_id = [a_claim(1, queues=(), task_id=TaskId(job, 0)) for job in (large, small, third)]
    refused, mine, late = await claim(cluster.ledger, by_id)
    assert isinstance(mine, list)
    assert mine[0].task_id == TaskId(small, 0)
    for each in (refused, late):
        assert isinstance(each, LeaseConflict)
        assert each.reason == "no_room"


async def test_a_book_without_a_worker_that_is_called_has_nothing(cluster: PlacedWorld) -> None:
    await cluster.submit(**SIZED)
    plain = await cluster.submit(queue="q")
    [[mine]] = await ask(cluster)
    assert mine.task_id == TaskId(plain, 0)
    async with cluster.ledger.database.transaction() as tx:
        balances = await hold_balances(cluster.ledger, tx, {BOOK})
    assert balances == {BOOK: Balance()}


async def test_a_book_has_a_name_that_can_be_written(cluster: PlacedWorld) -> None:
    with pytest.raises(Invalid, match="book: 'no name' is not"):
        await cluster.add("w1", book="no name")


async def test_a_claim_takes_nothing_while_something_is_placed(cluster: PlacedWorld) -> None:
    """What is about to be committed is not seen yet: so nobody counts meanwhile, nor waits."""
    await add_process(cluster)
    plain = await cluster.submit(queue="q")
    job_id = await cluster.submit(**SIZED)
    async with cluster.ledger.database.transaction() as tx:
        await hold_open_workers(tx, {"w1"})
        [[mine]] = await ask(cluster, a_claim(1))
        assert mine.task_id == TaskId(plain, 0)
        other = ClaimRequest("other", ("q",), free=Capacity(), capacity=Capacity())
        assert await ask(cluster, a_claim(), other) == [[], []]
    [[late]] = await ask(cluster)
    assert late.task_id == TaskId(job_id, 0)


async def test_claims_and_passes_at_once_never_take_more_than_there_is(
    cluster: PlacedWorld, database: Database
) -> None:
    """Whoever commits first, the other sees it: the audit counts what both have."""
    await add_process(cluster, cpu=3.0)
    for _ in range(10):
        await cluster.submit([1] * 4, **SIZED)
        await cluster.submit(replicas=4)
        claims = [claim(cluster.ledger, [a_claim(2)]) for _ in range(4)]
        await asyncio.gather(*claims, cluster.scheduler.run(await cluster.term()))
        await ask(cluster)  # whoever had to wait for too long has left some
        await assert_audit_is_silent(database)
        rows = await cluster.clock.fetch("select job_id from holdfast.leases")
        assert len(rows) == 3
        for job_id in {row[0] for row in rows}:
            await cluster.cancel_job(job_id, "hard")
        await cluster.clock.advance(300)
        await cluster.run_chores()
        await cluster.beat()
