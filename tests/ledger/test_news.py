"""What a transaction tells its server: after the commit, once, and nothing if it is undone."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Transaction
from tests.world import World


def listen(ledger: Ledger) -> list[News]:
    """Keep everything that a ledger tells."""
    told: list[News] = []
    ledger.on_commit = told.append
    return told


def test_what_is_ready_is_told_by_its_queue_and_placed_work_has_a_line_of_its_own() -> None:
    news = News()
    news.add_ready("q", TaskId(1, 0))
    news.add_ready("", TaskId(2, 0))
    news.add_ready("q", TaskId(1, 1))
    assert news.ready == {"q": [TaskId(1, 0), TaskId(1, 1)], "": [TaskId(2, 0)]}


def test_what_limits_open_is_told_but_for_what_was_claimed_at_once() -> None:
    news = News()
    news.add_all_opened(None, None, None)
    columns = ["q", "q", "r", "q"], [1, 1, None, None], [0, 1, None, None]
    news.add_all_opened(*columns, claimed={(1, 0)})
    assert news.ready == {"q": [TaskId(1, 1)]}
    assert news.roomy_queues == {"r": 1, "q": 1}


async def test_a_claim_tells_its_moves_and_how_long_tasks_waited(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(inputs=[1, 2])
    await world.clock.advance(3)
    told = listen(ledger)
    await world.claim(2)
    [news] = told
    assert news.moves == {(TaskState.PENDING, TaskState.ASSIGNED): 2}
    assert [waited[0] for waited in news.waits] == [job_id] * 2
    assert all(3 <= seconds < 30 for _, seconds in news.waits)


async def test_an_end_tells_how_long_the_attempt_ran_and_that_the_job_is_over(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    await world.clock.advance(5)
    told = listen(ledger)
    await world.succeed(mine)
    [news] = told
    assert news.moves == {(TaskState.RUNNING, TaskState.SUCCEEDED): 1}
    assert news.ended_jobs == [job_id]
    [(ran_job_id, seconds)] = news.runs
    assert ran_job_id == job_id
    assert 5 <= seconds < 30


async def test_a_retry_at_once_tells_that_its_task_is_ready(ledger: Ledger, world: World) -> None:
    await world.submit(max_retries_failure=1, backoff={"base": 0.0})
    [mine] = await world.claim()
    await world.start(mine)
    told = listen(ledger)
    await world.fail(mine)
    await world.run_chores()
    ready = [news.ready for news in told if news.ready]
    assert ready == [{"q": [mine.task_id]}]
    moves = {
        (TaskState.RUNNING, TaskState.FAILED): 1,
        (TaskState.FAILED, TaskState.PENDING): 1,
    }
    assert told[0].moves == moves


async def test_an_expired_lease_is_told_of(ledger: Ledger, world: World) -> None:
    await world.submit()
    await world.claim()
    told = listen(ledger)
    await world.pass_time(40)
    assert sum(news.expired for news in told) == 1


async def test_what_is_undone_is_not_told(ledger: Ledger) -> None:
    told = listen(ledger)

    async def change(_: Ledger, tx: Transaction) -> None:
        tx.news.expired += 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ledger.write(change)
    assert told == []
