"""Leases that are gone let others go, and tell whoever waits for them."""

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.ids import TaskId
from holdfast.operations.ending.complete import Completion, complete
from tests.limits import set_limit
from tests.world import World, fence_of


async def test_every_end_of_an_attempt_tells_who_may_start(world: World, ledger: Ledger) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    job_id = await world.submit([1, 2, 3, 4], on_exhausted="fail", max_retries_preemption=0)
    told: list[News] = []
    ledger.on_commit = told.append
    opened: list[TaskId] = []
    for end in ("succeeded", "failed", "lost"):
        [held] = await world.claim(4)
        told.clear()
        if end == "lost":
            await world.pass_time(60)
        else:
            await complete(ledger, [Completion(fence_of(held), end)])  # type: ignore[arg-type]
        opened += [task_id for news in told for task_id in news.ready.get("q", [])]
    assert opened == [TaskId(job_id, index) for index in (1, 2, 3)]


async def test_a_queue_that_was_full_is_told_of(world: World, ledger: Ledger) -> None:
    await set_limit(world.clock, "queues", "queue", 1)
    await world.submit([1, 2], on_exhausted="fail")
    told: list[News] = []
    [held] = await world.claim(2)
    ledger.on_commit = told.append
    await world.fail(held)
    assert sum(news.roomy_queues["q"] for news in told) == 1
